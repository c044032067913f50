/* Grammar of the shell reader: lists, pipelines and compound commands. */
#include "exchange/shell.h"

#include <string.h>

#include "base/err.h"
#include "exchange/shell_int.h"

/* ---- compound commands ---------------------------------------------------------------------- */

/* Reads a body that runs if `condition` is YES. */
static void branch_read(reader *r, tri condition, uint32_t line, const char *const *stops) {
    uint32_t outer = r->undecided_line;
    r->inactive += condition == NO;
    if (condition == MAYBE) {
        r->undecided_line = r->undecided == 0 ? line : outer;
        r->undecided++;
    }
    (void)orr_shell_list(r, stops);
    r->inactive -= condition == NO;
    r->undecided -= condition == MAYBE;
    r->undecided_line = outer;
}

static tri negated(tri t) {
    return t == MAYBE || t == USUAL ? MAYBE : t == YES ? NO : YES;
}
static tri and_also(tri a, tri b) {
    return a == NO || b == NO ? NO : a == YES && b == YES ? YES : MAYBE;
}

static void if_read(reader *r) {
    static const char *const then_stop[] = {"then", NULL};
    static const char *const body_stop[] = {"elif", "else", "fi", NULL};
    uint32_t line = r->line;
    tri open = YES; /* no earlier branch was taken */
    while (going(r)) {
        tri condition = orr_shell_list(r, then_stop);
        condition = condition == USUAL ? MAYBE : condition;
        (void)orr_shell_take_word(r, "then");
        branch_read(r, and_also(open, condition), line, body_stop);
        open = and_also(open, negated(condition));
        if (!orr_shell_take_word(r, "elif")) {
            break;
        }
    }
    if (orr_shell_take_word(r, "else")) {
        branch_read(r, open, line, body_stop);
    }
    (void)orr_shell_take_word(r, "fi");
}

static void loop_body(reader *r, tri runs, uint32_t line) {
    static const char *const do_stop[] = {"do", NULL};
    static const char *const done_stop[] = {"done", NULL};
    (void)orr_shell_list(r, do_stop);
    (void)orr_shell_take_word(r, "do");
    branch_read(r, runs, line, done_stop);
    (void)orr_shell_take_word(r, "done");
}

static void while_read(reader *r, bool until) {
    static const char *const do_stop[] = {"do", NULL};
    uint32_t line = r->line;
    tri condition = orr_shell_list(r, do_stop);
    condition = until ? negated(condition) : condition;
    loop_body(r, condition == NO ? NO : MAYBE, line);
}

static void for_read(reader *r) {
    uint32_t line = r->line;
    orr_shell_skip_blanks(r);
    if (look(r, 0) == '(') {
        orr_shell_step(r);
        orr_shell_skip_parens(r);
        loop_body(r, MAYBE, line);
        return;
    }
    raw_words name = {0}, items = {0};
    orr_shell_word_read(r, &name, false);
    orr_shell_skip_newlines(r);
    bool listed = orr_shell_take_word(r, "in");
    while (listed && going(r)) {
        orr_shell_skip_blanks(r);
        if (is_meta(look(r, 0))) {
            break;
        }
        size_t before = r->pos;
        orr_shell_word_read(r, &items, true);
        if (r->pos == before) {
            break;
        }
    }
    if (r->inactive == 0 && name.count > 0 && is_name_start(name.at[0].text[0])) {
        const char *variable = orr_shell_plain(r, name.at[0].text);
        raw_words value = {0};
        if (items.count == 1) {
            orr_shell_add(r, &value, items.at[0].text, line);
        } else {
            orr_text text = orr_text_new(r->arena, 4096);
            orr_shell_mark(
                r, &text, MARK_UNKNOWN,
                orr_arena_format(r->arena, "$%s of the loop at line %u", variable, line));
            orr_shell_add(r, &value, orr_text_done(&text), line);
            orr_shell_remark(r, line, "the loop's body is read once, with $%s unknown", variable);
        }
        orr_shell_set(r, variable, value, false);
    }
    loop_body(r, listed && items.count == 0 ? NO : YES, line);
}

/* Whether the subject matches one of the patterns up to ")". */
static tri pattern_read(reader *r, const char *subject) {
    tri match = NO;
    orr_shell_skip_newlines(r);
    if (look(r, 0) == '(') {
        orr_shell_step(r);
    }
    while (going(r) && r->pos < r->end && look(r, 0) != ')') {
        orr_shell_skip_blanks(r);
        raw_words words = {0};
        size_t before = r->pos;
        if (!is_meta(look(r, 0))) {
            orr_shell_word_read(r, &words, false);
        }
        if (words.count > 0 && r->inactive == 0) {
            const char *pattern = words.at[0].text;
            bool known = strchr(pattern, MARK_UNKNOWN) == NULL && subject != NULL;
            tri one = strcmp(pattern, "*") == 0                               ? YES
                      : !known                                                ? MAYBE
                      : orr_shell_match(orr_shell_plain(r, pattern), subject) ? YES
                                                                              : NO;
            match = match == YES || one == YES ? YES : match == MAYBE || one == MAYBE ? MAYBE : NO;
        }
        orr_shell_skip_newlines(r);
        if (look(r, 0) == '|' || r->pos == before) {
            orr_shell_step(r);
        }
    }
    orr_shell_step(r);
    return match;
}

static void case_read(reader *r) {
    static const char *const stops[] = {"esac", NULL};
    uint32_t line = r->line;
    orr_shell_skip_blanks(r);
    raw_words words = {0};
    orr_shell_word_read(r, &words, false);
    orr_shell_skip_newlines(r);
    (void)orr_shell_take_word(r, "in");
    const char *subject = NULL;
    if (words.count > 0 && r->inactive == 0 && strchr(words.at[0].text, MARK_UNKNOWN) == NULL) {
        subject = orr_shell_plain(r, words.at[0].text);
        const char *assumed = orr_shell_why(r, words.at[0].text, MARK_ASSUMED);
        if (assumed != NULL) {
            orr_shell_remark(r, line, "the case is decided by %s", assumed);
        }
    }
    tri open = YES;
    for (;;) {
        orr_shell_skip_newlines(r);
        if (!going(r) || r->pos >= r->end || orr_shell_take_word(r, "esac")) {
            return;
        }
        tri match = pattern_read(r, subject);
        branch_read(r, and_also(open, match), line, stops);
        open = and_also(open, negated(match));
        while (look(r, 0) == ';' || look(r, 0) == '&') {
            orr_shell_step(r);
        }
        if (look(r, 0) == ')') {
            orr_shell_step(r);
        }
    }
}

static tri double_bracket_read(reader *r) {
    raw_words words = {0};
    uint32_t line = r->line;
    while (going(r) && r->pos < r->end) {
        orr_shell_skip_newlines(r);
        if (orr_shell_take_word(r, "]]") || r->pos >= r->end) {
            break;
        }
        char c = look(r, 0);
        if (is_meta(c)) {
            size_t n = (c == '&' || c == '|') && look(r, 1) == c ? 2 : 1;
            orr_shell_add(r, &words, orr_arena_copy(r->arena, r->text + r->pos, n), r->line);
            r->pos += n;
        } else {
            size_t before = r->pos, count = words.count;
            orr_shell_word_read(r, &words, false);
            if (words.count == count && r->pos > before) {
                orr_shell_add(r, &words, "", r->line);
            }
            if (r->pos == before) {
                orr_shell_step(r);
            }
        }
    }
    return orr_shell_test(r, &words, true, line);
}

static tri arithmetic_command(reader *r) {
    size_t start = r->pos + 2;
    r->pos += 2;
    orr_shell_skip_parens(r); /* to the inner parenthesis */
    if (!going(r) || r->pos < start + 1) {
        return MAYBE;
    }
    size_t length = r->pos - 1 - start;
    if (look(r, 0) == ')') {
        orr_shell_step(r);
    }
    if (r->inactive > 0) {
        return MAYBE;
    }
    size_t pos = r->pos, end = r->end;
    uint32_t line = r->line;
    r->pos = start;
    r->end = start + length;
    char *expression = orr_shell_text_until(r, '\0');
    r->pos = going(r) ? pos : end;
    r->end = end;
    r->line = line;
    int64_t value;
    bool known;
    (void)orr_shell_arith(r, expression, "(( ))", &value, &known);
    return !known ? MAYBE : value != 0 ? YES : NO;
}

/* NAME() at the cursor: its length, else 0. */
static size_t function_head(const reader *r) {
    size_t n = 0;
    while (is_name_char(look(r, n)) || look(r, n) == '-') {
        n++;
    }
    size_t name = n;
    while (is_blank(look(r, n))) {
        n++;
    }
    if (name == 0 || look(r, n) != '(') {
        return 0;
    }
    n++;
    while (is_blank(look(r, n))) {
        n++;
    }
    return look(r, n) == ')' ? n + 1 : 0;
}

static tri command_read(reader *r) {
    static const char *const brace_stop[] = {"}", NULL};
    static const char *const none[] = {NULL};
    uint32_t line = r->line;
    tri status = YES;
    size_t head;
    if (orr_shell_take_word(r, "if")) {
        if_read(r);
    } else if (orr_shell_take_word(r, "while")) {
        while_read(r, false);
    } else if (orr_shell_take_word(r, "until")) {
        while_read(r, true);
    } else if (orr_shell_take_word(r, "for") || orr_shell_take_word(r, "select")) {
        for_read(r);
    } else if (orr_shell_take_word(r, "case")) {
        case_read(r);
    } else if (orr_shell_take_word(r, "[[")) {
        return double_bracket_read(r);
    } else if (orr_shell_take_word(r, "{")) {
        status = orr_shell_list(r, brace_stop);
        (void)orr_shell_take_word(r, "}");
    } else if (look(r, 0) == '(' && look(r, 1) == '(') {
        return arithmetic_command(r);
    } else if (look(r, 0) == '(') {
        orr_shell_step(r);
        status = orr_shell_list(r, none);
        if (look(r, 0) == ')') {
            orr_shell_step(r);
        }
    } else if (orr_shell_take_word(r, "function")) {
        orr_shell_skip_blanks(r);
        raw_words name = {0};
        orr_shell_word_read(r, &name, false);
        head = look(r, 0) == '(' && look(r, 1) == ')' ? 2 : 0;
        r->pos += head;
        orr_shell_skip_newlines(r);
        orr_shell_remark(r, line, "the function's body is read where it stands");
        if (r->pos < r->end && orr_shell_enter(r)) {
            status = command_read(r);
            orr_shell_leave(r);
        }
    } else if ((head = function_head(r)) > 0) {
        r->pos += head;
        orr_shell_skip_newlines(r);
        orr_shell_remark(r, line, "the function's body is read where it stands");
        if (r->pos < r->end && orr_shell_enter(r)) {
            status = command_read(r);
            orr_shell_leave(r);
        }
    } else {
        return orr_shell_simple(r);
    }
    while (orr_shell_skip_blanks(r), orr_shell_at_redirect(r) && going(r) && r->pos < r->end) {
        orr_shell_redirect(r);
    }
    return status;
}

static tri pipeline_read(reader *r) {
    bool inverted = false;
    while (orr_shell_skip_blanks(r), orr_shell_at_word(r, "!") || orr_shell_at_word(r, "time")) {
        inverted ^= orr_shell_take_word(r, "!");
        (void)orr_shell_take_word(r, "time");
    }
    if (!orr_shell_enter(r)) {
        return MAYBE;
    }
    tri status = command_read(r);
    while (orr_shell_skip_blanks(r), look(r, 0) == '|' && look(r, 1) != '|' && going(r)) {
        orr_shell_step(r);
        if (look(r, 0) == '&') {
            orr_shell_step(r);
        }
        orr_shell_skip_newlines(r);
        status = command_read(r);
    }
    orr_shell_leave(r);
    return inverted ? negated(status) : status;
}

static tri and_or_read(reader *r) {
    uint32_t line = r->line;
    tri status = pipeline_read(r);
    while (orr_shell_skip_blanks(r),
           (look(r, 0) == '&' || look(r, 0) == '|') && look(r, 1) == look(r, 0) && going(r)) {
        bool both = look(r, 0) == '&';
        tri runs = status == USUAL ? (both ? YES : NO) : both ? status : negated(status);
        r->pos += 2;
        orr_shell_skip_newlines(r);
        uint32_t outer = r->undecided_line;
        r->inactive += runs == NO;
        if (runs == MAYBE) {
            r->undecided_line = r->undecided == 0 ? line : outer;
            r->undecided++;
        }
        tri next = pipeline_read(r);
        r->inactive -= runs == NO;
        r->undecided -= runs == MAYBE;
        r->undecided_line = outer;
        status = runs == YES ? next : runs == NO ? status : MAYBE;
    }
    return status;
}

/* Up to one of the stop words (which stays), a closing parenthesis, ";;" or the end. */
tri orr_shell_list(reader *r, const char *const *stops) {
    tri status = YES;
    if (!orr_shell_enter(r)) {
        return MAYBE;
    }
    for (;;) {
        orr_shell_skip_separators(r);
        if (!going(r) || r->pos >= r->end || orr_shell_at_stop(r, stops)) {
            break;
        }
        size_t before = r->pos;
        status = and_or_read(r);
        if (r->pos == before) {
            orr_shell_step(r);
        }
    }
    orr_shell_leave(r);
    return status;
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* A copy without carriage returns before line ends and without control bytes, so that marks are
 * ours alone. */
char *orr_shell_clean(orr_arena *arena, const char *text, size_t *length) {
    char *copy = orr_arena_copy(arena, text, *length);
    size_t n = 0;
    for (size_t i = 0; i < *length; i++) {
        char c = text[i];
        if (c == '\r' && i + 1 < *length && text[i + 1] == '\n') {
            continue;
        }
        copy[n++] = (unsigned char)c < 32 && c != '\n' && c != '\t' ? '?' : c;
    }
    copy[n] = '\0';
    *length = n;
    return copy;
}

static const orr_shell_variable *variables(reader *r, size_t *count) {
    orr_shell_variable *list = ORR_NEW_ARRAY(r->arena, orr_shell_variable, r->var_count + 1);
    *count = 0;
    for (size_t i = 0; i < r->var_count && going(r); i++) {
        const shell_var *var = r->var[i];
        raw_words fields = {0};
        for (size_t k = 0; var->set && k < var->value.count && going(r); k++) {
            orr_shell_split(r, &fields, var->value.at[k]);
        }
        orr_shell_word *word = ORR_NEW_ARRAY(r->arena, orr_shell_word, fields.count + 1);
        for (size_t k = 0; k < fields.count; k++) {
            word[k] = orr_shell_finish(r, fields.at[k]);
        }
        list[(*count)++] =
            (orr_shell_variable){.name = var->name, .word = word, .count = fields.count};
    }
    return list;
}

orr_status orr_shell_read(orr_arena *arena, const orr_shell_options *options, const char *text,
                          size_t length, orr_shell *out, orr_err *err) {
    static const orr_shell_options nothing = {0};
    options = options != NULL ? options : &nothing;
    if (length > ORR_SHELL_MAX_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "a shell script of %zu bytes is too large: at most %d",
                        length, (int)ORR_SHELL_MAX_BYTES);
    }
    reader r = {.arena = arena,
                .name = options->name,
                .options = options,
                .line = 1,
                .err = err,
                .status = ORR_OK};
    r.text = orr_shell_clean(arena, text, &length);
    r.end = length;
    for (size_t i = 0; i < options->given_count; i++) {
        raw_words value = {0};
        orr_shell_add(&r, &value, options->given[i].value, 1);
        orr_shell_set(&r, options->given[i].name, value, false);
    }
    static const char *const none[] = {NULL};
    while (going(&r) && r.pos < r.end) {
        (void)orr_shell_list(&r, none);
        orr_shell_step(&r); /* a stray closer */
    }
    *out = (orr_shell){.command = r.command,
                       .command_count = r.command_count,
                       .note = r.note,
                       .note_count = r.note_count};
    out->variable = variables(&r, &out->variable_count);
    orr_map_release(&r.vars);
    return r.status;
}
