/* Pins and ranges: "tp=8", "mbs=1..4", "schedule=1f1b,interleaved", "gpus=32,64". */
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

static const char *const names[AXIS_COUNT] = {
    [AXIS_TP] = "tp",
    [AXIS_CP] = "cp",
    [AXIS_PP] = "pp",
    [AXIS_EP] = "ep",
    [AXIS_ETP] = "etp",
    [AXIS_MBS] = "mbs",
    [AXIS_VPP] = "vpp",
    [AXIS_SP] = "sp",
    [AXIS_DISPATCH] = "dispatch",
    [AXIS_SHARDING] = "sharding",
    [AXIS_SCHEDULE] = "schedule",
    [AXIS_LAYOUT] = "layout",
    [AXIS_RECOMPUTE] = "recompute",
    [AXIS_OVERLAP] = "overlap",
};

const char *tune_axis_name(tune_axis axis) {
    return names[axis];
}

bool tune_limit_takes(const tune_limit *limit, uint32_t value) {
    for (uint32_t i = 0; i < limit->count; i++) {
        if (value >= limit->interval[i].low && value <= limit->interval[i].high) {
            return true;
        }
    }
    return limit->count == 0;
}

static orr_status bad(const char *text, const char *why, orr_err *err) {
    orr_status status = orr_fail(err, ORR_E_SCHEMA, "'%s' %s", text, why);
    orr_hint(err, "for example --pin tp=8, --range mbs=1..4, --range schedule=1f1b,interleaved");
    return status;
}

static orr_status read_interval(const char *text, uint32_t *low, uint32_t *high, orr_err *err) {
    char first[32];
    const char *dots = strstr(text, "..");
    size_t length = dots == NULL ? strlen(text) : (size_t)(dots - text);
    int64_t a = 0, b = 0;
    if (length == 0 || length >= sizeof first) {
        return bad(text, "is no number and no range A..B", err);
    }
    memcpy(first, text, length);
    first[length] = '\0';
    bool good = orr_parse_int(first, &a) && a >= 1 && a <= UINT32_MAX;
    b = a;
    good = good && (dots == NULL || (orr_parse_int(dots + 2, &b) && b >= a && b <= UINT32_MAX));
    if (!good) {
        return bad(text, "is no number and no range A..B", err);
    }
    *low = (uint32_t)a;
    *high = (uint32_t)b;
    return ORR_OK;
}

static orr_status add_item(tune_limit *limit, bool number, const char *text, orr_err *err) {
    if (limit->count == TUNE_MAX_ITEMS) {
        return bad(text, "is one value too many", err);
    }
    if (number) {
        ORR_TRY(read_interval(text, &limit->interval[limit->count].low,
                              &limit->interval[limit->count].high, err));
    }
    limit->word[limit->count++] = text;
    return ORR_OK;
}

/* "8..64" of a key that is no axis: doubling. */
static orr_status add_other(orr_arena *arena, tune_limits *out, uint32_t at, const char *text,
                            orr_err *err) {
    uint32_t low = 0, high = 0;
    bool range = strstr(text, "..") != NULL;
    if (range) {
        ORR_TRY(read_interval(text, &low, &high, err));
    }
    for (uint64_t n = low; range ? n <= high : n == low; n = range ? 2 * n : n + 1) {
        if (out->other[at].count == TUNE_MAX_ITEMS) {
            return bad(text, "is one value too many", err);
        }
        out->other[at].value[out->other[at].count++] =
            range ? orr_arena_format(arena, "%llu", (unsigned long long)n) : text;
    }
    return ORR_OK;
}

static int find_axis(const char *key) {
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (orr_name_equal(key, names[a])) {
            return a;
        }
    }
    return -1;
}

static orr_status check_key(orr_arena *arena, const char *key, orr_err *err) {
    const orr_tree *fields = orr_plan_fields(arena);
    const char *known[80];
    size_t count = 0;
    for (size_t i = 0; i < orr_tree_size(fields) && count < 80; i++) {
        known[count] = orr_tree_text(orr_tree_get(orr_tree_at(fields, i), "name"), "");
        if (strcmp(known[count++], key) == 0) {
            return ORR_OK;
        }
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "no plan key is named '%s'", key);
    int near = orr_name_nearest(key, known, count);
    if (near >= 0) {
        orr_hint(err, "did you mean '%s'?", known[near]);
    }
    return status;
}

static orr_status find_other(tune_limits *out, const char *key, uint32_t *at, orr_err *err) {
    for (*at = 0; *at < out->other_count; (*at)++) {
        if (strcmp(out->other[*at].key, key) == 0) {
            return orr_fail(err, ORR_E_CONFLICT, "'%s' is pinned or given a range twice", key);
        }
    }
    if (out->other_count == TUNE_MAX_ITEMS) {
        return orr_fail(err, ORR_E_LIMIT, "more than %d keys are pinned", TUNE_MAX_ITEMS);
    }
    out->other[out->other_count++].key = key;
    return ORR_OK;
}

/* A pin is one value, whatever it holds; values of a range stand between commas. */
static orr_status read_one(orr_arena *arena, const char *text, bool pin, tune_limits *out,
                           orr_err *err) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0') {
        return bad(text, pin ? "is not KEY=VALUE" : "is not KEY=A..B or KEY=A,B", err);
    }
    char *key = orr_arena_copy(arena, text, (size_t)(equals - text));
    for (char *p = key; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : *p;
    }
    int axis = find_axis(key);
    uint32_t at = 0;
    if (axis < 0) {
        ORR_TRY(check_key(arena, key, err));
        ORR_TRY(find_other(out, key, &at, err));
    } else if (out->axis[axis].count > 0) {
        return orr_fail(err, ORR_E_CONFLICT, "'%s' is pinned or given a range twice", key);
    }
    for (const char *p = equals + 1; *p != '\0';) {
        size_t length = pin ? strlen(p) : strcspn(p, ",");
        const char *item = orr_arena_copy(arena, p, length);
        p += length + (p[length] != '\0');
        if (*item == '\0') {
            return bad(text, "has an empty value", err);
        }
        if (axis < 0) {
            ORR_TRY(add_other(arena, out, at, item, err));
        } else {
            ORR_TRY(add_item(&out->axis[axis], axis < AXIS_NUMBERS, item, err));
        }
    }
    return ORR_OK;
}

orr_status tune_limits_read(orr_arena *arena, const orr_tune_request *request, tune_limits *out,
                            orr_err *err) {
    *out = (tune_limits){0};
    const orr_tree *lists[] = {request->pins, request->ranges};
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < orr_tree_size(lists[l]); i++) {
            const char *text = orr_tree_text(orr_tree_at(lists[l], i), "");
            ORR_TRY(read_one(arena, text, l == 0, out, err));
        }
    }
    return ORR_OK;
}
