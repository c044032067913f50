#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../arena_fixture.h"
#include "base/arena.h"
#include "base/text.h"
#include "exchange/shell.h"

static const orr_shell_options named = {.name = "t.sh"};

static orr_shell read_text(const char *text) {
    orr_shell shell;
    orr_err err = {0};
    orr_status status = orr_shell_read(arena, &named, text, strlen(text), &shell, &err);
    if (status != ORR_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, ORR_OK);
    return shell;
}

/* The words of the last command, joined by '|'; an unknown one stands as <source>, one with an
 * assumption ends in '~'. */
static const char *last(const char *text) {
    orr_shell shell = read_text(text);
    if (shell.command_count == 0) {
        return "";
    }
    const orr_shell_command *command = &shell.command[shell.command_count - 1];
    orr_text out = orr_text_new(arena, 4096);
    for (size_t i = 0; i < command->count; i++) {
        const orr_shell_word *w = &command->word[i];
        orr_text_format(&out, "%s%s%s%s%s", i > 0 ? "|" : "", w->unknown != NULL ? "<" : "",
                        w->text, w->unknown != NULL ? ">" : "", w->assumed != NULL ? "~" : "");
    }
    return orr_text_done(&out);
}

typedef struct shell_case {
    const char *text, *words;
} shell_case;

static const shell_case cases[] = {
    /* quotes and splitting */
    {"run a 'b c' \"d e\" f\\ g", "run|a|b c|d e|f g"},
    {"A='1 2'; run $A \"$A\" x$A", "run|1|2|1 2|x1|2"},
    {"run '' \"\"", "run||"},
    {"A=; run $A \"$A\" end", "run||end"},
    {"A=1 \\\n B=2\nrun $A$B", "run|12"},
    {"run a \\\n   b # comment\n", "run|a|b"},
    {"run a#b '#c' # d", "run|a#b|#c"},
    {"run a\r\n", "run|a"},
    {"run $'a b'", "run|a b"},
    {"run \"a\\\"b\\$c\\d\"", "run|a\"b$c\\d"},
    /* parameters */
    {"A=1; run ${A} ${A}2 $A-x", "run|1|12|1-x"},
    {"run ${A:-8} ${A-9}", "run|8~|9~"},
    {"A=; run ${A:-8} x${A-9}", "run|8|x"},
    {"A=5; run ${A:-8} ${A:+set} ${B:+set} end", "run|5|set|end"},
    {"run ${A:=7}; run $A", "run|7~"},
    {"run ${A:-${B:-3}}", "run|3~"},
    {"run ${A:-a b}", "run|a~|b~"},
    {"run \"${A:-a b}\"", "run|a b~"},
    {"A=path/to/file.sh; run ${A##*/} ${A%.sh} ${A#*/} ${A%%/*}",
     "run|file.sh|path/to/file|to/file.sh|path"},
    {"A=True; run ${A,,} ${A^^} ${#A}", "run|true|TRUE|4"},
    {"A=ab; run ${A/a/b}", "run|<${A/a/b}>"},
    {"run $A ${B} $1 $@ $#", "run|<$A>|<${B}>|<$1>|<$@>|<$#>"},
    {"run x$A/y", "run|<x$A/y>"},
    {"A=1; unset A; run $A", "run|<$A>"},
    /* arrays */
    {"A=(1 '2 3' # c\n 4); run \"${A[@]}\"", "run|1|2 3|4"},
    {"A=(1 '2 3'); run ${A[@]} ${#A[@]} ${A[1]} $A", "run|1|2|3|2|2|3|1"},
    {"A=(1); A+=(2 3); A+=(\"$B\"); run \"${A[*]}\"", "run|<1 2 3 $B>"},
    {"A=(); run \"${A[@]}\" end", "run|end"},
    {"declare -a A=(1 2); run ${A[@]}", "run|1|2"},
    {"S=a; S+=b; S+=\" c\"; run $S", "run|ab|c"},
    /* arithmetic */
    {"A=4; run $((A*2+1)) $(( (A + 2) * 3 )) $((7/2)) $((7%4)) $((-A)) $((2**5))",
     "run|9|18|3|3|-4|32"},
    {"A=4; run $(( $A * ${A} )) $((A > 3 ? 1 : 2)) $((0x10)) $((A==4 && A<5))", "run|16|1|16|1"},
    {"run $((1/0))", "run|<$((1/0))>"},
    {"run $((9223372036854775807 + 1))", "run|<$((9223372036854775807 + 1))>"},
    {"run $((MISSING * 2))", "run|<$MISSING>"},
    {"A=A; run $((A))", "run|<$A>"},
    {"A=${B:-2}; run $((A * 3))", "run|6~"},
    {"A=`date`; run $((A * 3))", "run|<`date`>"},
    {"((A = 3 * 4)); let B=A+1; run $A $B", "run|12|13"},
    /* command output is unknown, and so is all that depends on it */
    {"A=$(ls | wc -l); B=$((A / 2)); C=x$B; run $A $B $C",
     "run|<$(ls | wc -l)>|<$(ls | wc -l)>|<x$(ls | wc -l)>"},
    {"A=\"--x 1 --y $(f 'a)b') --z 2\"; run $A", "run|--x|1|--y|<$(f 'a)b')>|--z|2"},
    {"run $(echo $(echo ')'))", "run|<$(echo $(echo ')'))>"},
    {"read A; run $A", "run|<$A>"},
    /* conditions */
    {"A=1; if [ $A -eq 1 ]; then B=y; else B=n; fi; run $B", "run|y"},
    {"A=2; if [ \"$A\" = 1 ]; then B=y; elif [[ $A == 2 ]]; then B=z; else B=n; fi; run $B",
     "run|z"},
    {"if [ -n \"$X\" ]; then B=y; else B=n; fi; run $B", "run|n~"},
    {"B=0; if grep -q x f; then B=1; fi; run $B", "run|1~"},
    {"B=0; if [ -f f ]; then B=$(cat f); fi; run $B", "run|0"},
    {"[ 1 -gt 2 ] && A=1 || A=2; run $A", "run|2"},
    {"A=1; [[ -z $A ]] && A=2; run $A", "run|1"},
    {"A=a; [[ $A == a* && ! $A == b ]] && A=2; run $A", "run|2"},
    {"cd /x || exit 1; cd y && A=3; run $A", "run|3"},
    {"A=0; if ((A > 0)); then B=1; else B=2; fi; run $B", "run|2"},
    {"M=7b; case $M in 8b) A=8;; 7b|7B) A=7;; *) A=0;; esac; run $A", "run|7"},
    {"M=9; case $M in 8) A=8;; *) A=0;; esac; run $A", "run|0"},
    {"for i in 5; do A=$i; done; run $A", "run|5"},
    {"for i in; do A=1; done; A=${A:-2}; run $A", "run|2~"},
    /* what is not read, what is read again */
    {"cat <<EOF\nrun wrong\nEOF\nrun right", "run|right"},
    {"cat <<-'E'  > f\n\trun $(wrong)\n\tE\nrun right", "run|right"},
    {"run a > out 2>&1 < in", "run|a"},
    {"A='run x'; eval $A y", "run|x|y"},
    {"bash -c \"run a 'b c'\"", "run|a|b c"},
    {"srun --label bash -c 'A=1; run $A'", "run|1"},
    {"A=1 run $A; run \"$A\"", "run|<$A>"},
    {"export A=1 B=\"2 3\"; run $A \"$B\"", "run|1|2 3"},
    {"(cd x; run a) | tee log", "tee|log"},
    {"f() { run a; }\nf", "f"},
    {"{ run a; }", "run|a"},
    {"nohup run a &", "nohup|run|a"},
    {"run --data <PATH TO DATA> --x 1", "run|--data|<<PATH TO DATA>>|--x|1"},
    {"run <in >out a", "run|a"},
};

static void scripts_expand_as_a_shell_would(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words = last(cases[i].text);
        if (strcmp(words, cases[i].words) != 0) {
            print_error("%s\n  gives    %s\n  expected %s\n", cases[i].text, words, cases[i].words);
        }
        assert_string_equal(words, cases[i].words);
    }
}

static void words_know_their_line(void **state) {
    (void)state;
    orr_shell shell = read_text("A=(1\n  2)\nB=3\nrun x \\\n  \"${A[@]}\" $B\n");
    assert_int_equal(shell.command_count, 1);
    const orr_shell_command *c = &shell.command[0];
    const uint32_t lines[] = {4, 4, 1, 2, 3};
    assert_int_equal(c->count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(c->word[i].line, lines[i]);
    }
}

static void undecided_commands_say_so(void **state) {
    (void)state;
    orr_shell shell = read_text("if [ -f x ]; then\n run a\nfi\nrun b\n. other.sh\n");
    assert_int_equal(shell.command_count, 2);
    assert_true(shell.command[0].undecided);
    assert_false(shell.command[1].undecided);
    assert_int_equal(shell.note_count, 1);
    assert_int_equal(shell.note[0].line, 5);
}

static void given_variables_stand_first(void **state) {
    (void)state;
    orr_shell shell;
    orr_shell_given given[] = {{"SLURM_NNODES", "4"}};
    orr_shell_options options = {.given = given, .given_count = 1};
    const char *text = "run ${SLURM_NNODES:-1}";
    assert_int_equal(orr_shell_read(arena, &options, text, strlen(text), &shell, NULL), ORR_OK);
    assert_string_equal(shell.command[0].word[1].text, "4");
    assert_null(shell.command[0].word[1].assumed);
}

static void refused(const char *text, orr_status status, uint32_t line, const char *part) {
    orr_shell shell;
    orr_err err = {0};
    assert_int_equal(orr_shell_read(arena, &named, text, strlen(text), &shell, &err), status);
    assert_int_equal(err.line, line);
    assert_non_null(strstr(err.message, part));
}

static const char *load(void *user, const char *name, bool complete, size_t *length) {
    (void)user;
    const char *text = strcmp(name, "conf/a.sh") == 0 ? (complete ? "A=1" : "A=2; B=$A") : NULL;
    *length = text != NULL ? strlen(text) : 0;
    return text;
}

static void sourced_files_come_from_the_caller(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"source conf/a.sh; run $A", "1"},
        {"D=$(dirname $0); . \"$D/conf/a.sh\"; run $B", "2"},
        {"if false; then . conf/a.sh; fi; run ${A:-3}", "3"},
    };
    for (size_t i = 0; i < 3; i++) {
        orr_shell shell;
        orr_shell_options options = {.load = load};
        assert_int_equal(
            orr_shell_read(arena, &options, texts[i][0], strlen(texts[i][0]), &shell, NULL),
            ORR_OK);
        assert_string_equal(shell.command[shell.command_count - 1].word[1].text, texts[i][1]);
    }
    orr_shell shell = read_text(". conf/a.sh\nrun $A");
    assert_int_equal(shell.note_count, 1);
    assert_non_null(shell.command[0].word[1].unknown);
}

static void variables_are_kept(void **state) {
    (void)state;
    orr_shell shell = read_text("A=\"x 1 $(f)\"\nB=(y 'z w')\nunset A");
    assert_int_equal(shell.variable_count, 2);
    assert_int_equal(shell.variable[0].count, 0);
    assert_string_equal(shell.variable[1].name, "B");
    assert_int_equal(shell.variable[1].count, 3);
}

static void broken_text_is_refused_with_its_line(void **state) {
    (void)state;
    refused("a\nrun 'b\nc", ORR_E_SYNTAX, 2, "never closed");
    refused("run \"b", ORR_E_SYNTAX, 1, "never closed");
    refused("a\n\nX=$(ls", ORR_E_SYNTAX, 3, "never closed");
    refused("X=`ls", ORR_E_SYNTAX, 1, "never closed");
    refused("X=${A:-b", ORR_E_SYNTAX, 1, "never closed");
    refused("X=(a b", ORR_E_SYNTAX, 1, "never closed");
}

static void growth_and_depth_are_bounded(void **state) {
    (void)state;
    orr_text doubling = orr_text_new(arena, 1 << 20);
    orr_text_add(&doubling, "X=aaaaaaaa\n");
    for (int i = 0; i < 64; i++) {
        orr_text_add(&doubling, "X=\"$X$X\"\n");
    }
    refused(orr_text_done(&doubling), ORR_E_LIMIT, 20, "too much text");
    orr_text deep = orr_text_new(arena, 1 << 20);
    for (int i = 0; i < 4000; i++) {
        orr_text_add(&deep, "${A:-");
    }
    refused(orr_text_done(&deep), ORR_E_LIMIT, 1, "nested too deeply");
    orr_text ifs = orr_text_new(arena, 1 << 20);
    for (int i = 0; i < 4000; i++) {
        orr_text_add(&ifs, "if ((");
    }
    orr_shell shell;
    orr_status status = orr_shell_read(arena, NULL, orr_text_done(&ifs), ifs.length, &shell, NULL);
    assert_true(status == ORR_E_LIMIT || status == ORR_E_SYNTAX);
    /* a self-reference grows once, it does not loop */
    assert_string_equal(last("L=\"$L $L x\"; run $L"), "run|<$L>|<$L>|x");
    size_t length = ORR_SHELL_MAX_BYTES + 1;
    char *big = orr_arena_alloc(arena, length);
    memset(big, 'a', length);
    assert_int_equal(orr_shell_read(arena, NULL, big, length, &shell, NULL), ORR_E_LIMIT);
}

static void marks_cannot_be_forged(void **state) {
    (void)state;
    orr_shell shell;
    const char text[] = "run \x01"
                        "aaaa \x02"
                        "aaaa a\0b";
    assert_int_equal(orr_shell_read(arena, NULL, text, sizeof text - 1, &shell, NULL), ORR_OK);
    assert_string_equal(shell.command[0].word[1].text, "?aaaa");
    assert_null(shell.command[0].word[1].unknown);
    assert_string_equal(shell.command[0].word[3].text, "a?b");
}

static void patterns_match(void **state) {
    (void)state;
    assert_true(orr_shell_match("a*c", "abbc"));
    assert_true(orr_shell_match("*", ""));
    assert_true(orr_shell_match("[a-c]?", "bz"));
    assert_true(orr_shell_match("[!a]*", "bz"));
    assert_false(orr_shell_match("a*c", "abd"));
    assert_false(orr_shell_match("", "a"));
    assert_false(orr_shell_match("[ab", "a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scripts_expand_as_a_shell_would, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(words_know_their_line, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(undecided_commands_say_so, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(given_variables_stand_first, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(sourced_files_come_from_the_caller, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(variables_are_kept, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(broken_text_is_refused_with_its_line, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(growth_and_depth_are_bounded, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(marks_cannot_be_forged, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(patterns_match, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
