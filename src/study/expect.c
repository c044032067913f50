/* A committed headline against a result: CI fails when a figure gets worse than what is committed
 * by more than its rounding. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"
#include "study/study.h"

enum { BETTER_LOWER = 0, BETTER_HIGHER, BETTER_EQUAL };

typedef struct expectation {
    const char *path;
    double value, rounding;
    uint8_t better;
} expectation;

static const char *const directions[] = {"lower", "higher", "equal", NULL};
static const orr_field fields[] = {
    {.name = "path",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(expectation, path),
     .doc = "dotted path of the figure in the result"},
    {.name = "value",
     .type = ORR_FIELD_REAL,
     .offset = offsetof(expectation, value),
     .min = -1e300,
     .max = 1e300,
     .doc = "the committed figure"},
    {.name = "rounding",
     .type = ORR_FIELD_REAL,
     .offset = offsetof(expectation, rounding),
     .fallback = "0",
     .doc = "how far it may be missed"},
    {.name = "better",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(expectation, better),
     .values = directions,
     .fallback = "lower",
     .doc = "which way is better"},
};
static const orr_schema schema = {
    .title = "headline", .fields = fields, .count = sizeof fields / sizeof *fields, .open = false};

static bool reached(const expectation *want, double got) {
    switch (want->better) {
    case BETTER_LOWER: return got <= want->value + want->rounding;
    case BETTER_HIGHER: return got >= want->value - want->rounding;
    default: return fabs(got - want->value) <= want->rounding;
    }
}

orr_status orr_study_expect(orr_arena *arena, const orr_tree *result, const char *path,
                            orr_tree **check, orr_err *err) {
    orr_tree *root = NULL;
    ORR_TRY(orr_doc_read_file(arena, path, &root, err));
    const orr_tree *checks = orr_tree_get(root, "checks");
    if (orr_tree_size(checks) == 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(root),
                           "a headline needs a list `checks` of {path, value, rounding, better}");
    }
    orr_tree *failures = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(checks); i++) {
        expectation want = {0};
        ORR_TRY(orr_schema_read(&schema, arena, orr_tree_at(checks, i), &want, NULL, err));
        const orr_tree *node = orr_tree_path(result, want.path);
        double got = orr_tree_real(node, NAN);
        if (!reached(&want, got)) { /* a figure that is missing is none */
            orr_tree *one = orr_tree_push(arena, failures, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "path", want.path);
            orr_tree_put_real(arena, one, "value", got);
            orr_tree_put_real(arena, one, "expected", want.value);
            orr_tree_put_text(arena, one, "better", directions[want.better]);
        }
    }
    *check = orr_tree_new_map(arena);
    orr_tree_put_bool(arena, *check, "passed", orr_tree_size(failures) == 0);
    orr_tree_put_int(arena, *check, "checks", (int64_t)orr_tree_size(checks));
    (void)orr_tree_put(arena, *check, "failures", failures);
    return ORR_OK;
}
