/* A script is parsed, never executed: hostile ones leave no trace, and what only a run could tell
 * is no number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "exchange/exchange.h"

enum { PATH_LENGTH = 256 };

static char trace[PATH_LENGTH]; /* what a script would leave if it ran */

/* Every way of running a command that shells have; TRACE stands for the file it would make. */
static const char *const hostile[] = {
    "touch TRACE\n",
    "$(touch TRACE)\n",
    "`touch TRACE`\n",
    "X=$(touch TRACE; echo 4)\n",
    "X=`touch TRACE; echo 4`\n",
    "eval 'touch TRACE'\n",
    "eval \"$(printf 'touch TRACE')\"\n",
    "bash -c 'touch TRACE'\n",
    "exec touch TRACE\n",
    "python3 -c 'open(\"TRACE\", \"w\")'\n",
    "perl -e 'open(F, \">TRACE\")'\n",
    "env touch TRACE\n",
    "nohup touch TRACE &\n",
    ": > TRACE\n",
    "echo hello > TRACE\n",
    "cat /dev/null >> TRACE\n",
    "printf x | tee TRACE\n",
    "trap 'touch TRACE' EXIT\n",
    "f() { touch TRACE; }\nf\n",
    "for i in 1 2; do touch TRACE; done\n",
    "while touch TRACE; do :; done\n",
    "if touch TRACE; then :; fi\n",
    "[ $(touch TRACE; echo 1) = 1 ]\n",
    "[[ $(touch TRACE) ]]\n",
    "(( X = $(touch TRACE; echo 1) ))\n",
    "case $(touch TRACE) in *) ;; esac\n",
    "cat <<E\n$(touch TRACE)\nE\n",
    "bash <<< 'touch TRACE'\n",
    "source <(echo touch TRACE)\n",
    "diff <(touch TRACE) >(cat)\n",
    "X=${Y:-$(touch TRACE)}\n",
    "X=${Y:=`touch TRACE`}\n",
    "A=([0]=$(touch TRACE))\n",
    "echo ${X@P} $'\\x74ouch TRACE'\n",
    "PS4='$(touch TRACE)'; set -x; true\n",
    "alias ls='touch TRACE'; ls\n",
    "coproc touch TRACE\n",
    "find / -maxdepth 0 -exec touch TRACE ';'\n",
    "xargs touch <<< TRACE\n",
    ". ./TRACE\n",
    "LD_PRELOAD=TRACE true\n",
    "read X < <(touch TRACE; echo 8)\n",
    "mapfile -t A < <(touch TRACE)\n",
    "declare -n R=X; R=$(touch TRACE)\n",
    "rm -rf / --no-preserve-root; touch TRACE\n",
    ":(){ :|:& };:\n",
};

static const char training[] =
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
    "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000 "
    "--tensor-model-parallel-size $(touch TRACE; echo 4)\n";

static const char *filled(orr_arena *arena, const char *text) {
    orr_text out = orr_text_new(arena, 1 << 16);
    orr_text_add(&out, "");
    for (const char *p = text; *p != '\0';) {
        if (strncmp(p, "TRACE", 5) == 0) {
            orr_text_add(&out, trace);
            p += 5;
        } else {
            orr_text_addn(&out, p++, 1);
        }
    }
    return orr_text_done(&out);
}

static bool named(const orr_tree *list, const char *key, const char *part) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strstr(orr_tree_text(orr_tree_get(orr_tree_at(list, i), key), ""), part) != NULL) {
            return true;
        }
    }
    return false;
}

static void nothing_is_executed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import;
        orr_err err = {0};
        const char *text = orr_arena_format(arena, "#!/bin/bash\n%s%s", filled(arena, hostile[i]),
                                            filled(arena, training));
        orr_status status = orr_import_text(arena, "hostile.sh", text, strlen(text), &import, &err);
        assert_int_equal(access(trace, F_OK), -1);
        if (status == ORR_OK) {
            /* the degree that a command would have printed is named, and no number */
            assert_null(orr_tree_get(import.keys, "tp"));
            assert_true(named(import.unknown, "name", "tensor-model-parallel-size"));
            assert_int_equal(orr_tree_int(orr_tree_get(import.keys, "mbs"), 0), 1);
        } else {
            assert_true(err.message[0] != '\0');
        }
        orr_arena_free(arena);
    }
}

/* The same from a file: what it sources is looked for beside it, nowhere else. */
static void files_elsewhere_are_not_read(void **state) {
    (void)state;
    static const char *const outside[] = {
        "source /etc/passwd\n", ". ../../../../etc/hostname\n", "source ~/.bashrc\n",
        "accelerate launch --config_file /etc/passwd train.py /etc/hosts.yaml\n"};
    char path[PATH_LENGTH + 8];
    (void)snprintf(path, sizeof path, "%s.sh", trace);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        orr_arena *arena = orr_arena_new();
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        (void)fprintf(file, "#!/bin/bash\n%s%s", outside[i], filled(arena, training));
        (void)fclose(file);
        orr_import import;
        orr_err err = {0};
        assert_int_equal(orr_import_file(arena, path, &import, &err), ORR_OK);
        assert_false(named(import.unknown, "name", "root:"));
        assert_int_equal(access(trace, F_OK), -1);
        orr_arena_free(arena);
    }
    (void)unlink(path);
}

static int setup(void **state) {
    (void)state;
    char folder[] = "/tmp/orrery-hostile-XXXXXX";
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(trace, sizeof trace, "%s/ran", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char folder[PATH_LENGTH];
    (void)snprintf(folder, sizeof folder, "%s", trace);
    *strrchr(folder, '/') = '\0';
    return rmdir(folder); /* fails when anything was left */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_executed),
        cmocka_unit_test(files_elsewhere_are_not_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
