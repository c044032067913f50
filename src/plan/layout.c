/* Megatron's layout strings: "Et*3|(tt|)*29m|L". Groups "(x)*n" are written out first, then single
 * letters "t*3"; commas and blanks mean nothing. E comes first, L last, m after every t. */
#include <string.h>

#include "base/map.h"
#include "plan/plan_int.h"

enum { LAYOUT_MAX = 16384, LAYOUT_MAX_STAGES = ORR_MAX_LAYERS + 2 };

static orr_status too_long(orr_err *err) {
    return orr_fail(err, ORR_E_LIMIT, "the layout has more than %d letters when written out",
                    LAYOUT_MAX);
}

/* "*n" at p: the number, and where it ends; NULL when there is none. */
static const char *read_times(const char *p, uint32_t *times) {
    if (*p != '*' || p[1] < '0' || p[1] > '9') {
        return NULL;
    }
    *times = 0;
    for (p++; *p >= '0' && *p <= '9'; p++) {
        *times = orr_min_u32(*times * 10 + (uint32_t)(*p - '0'), LAYOUT_MAX + 1);
    }
    return p;
}

static orr_status repeat(orr_text *out, const char *bytes, size_t length, uint32_t times,
                         orr_err *err) {
    if (length * (size_t)times + out->length > LAYOUT_MAX) {
        return too_long(err);
    }
    for (uint32_t i = 0; i < times; i++) {
        orr_text_addn(out, bytes, length);
    }
    return ORR_OK;
}

static orr_status expand_groups(orr_text *out, const char *text, orr_err *err) {
    for (const char *p = text; *p != '\0';) {
        if (*p != '(') {
            ORR_TRY(repeat(out, p, 1, 1, err));
            p++;
            continue;
        }
        const char *end = strpbrk(p + 1, "()");
        uint32_t times = 1;
        if (end == NULL || *end == '(') {
            return orr_fail(err, ORR_E_SYNTAX,
                            "the layout \"%.80s\" has a '(' that is not closed by ')'", text);
        }
        const char *after = read_times(end + 1, &times);
        ORR_TRY(repeat(out, p + 1, (size_t)(end - p - 1), times, err));
        p = after != NULL ? after : end + 1;
    }
    return ORR_OK;
}

static orr_status expand_letters(orr_text *out, const char *text, orr_err *err) {
    for (const char *p = text; *p != '\0';) {
        if (*p == ',' || *p == ' ' || *p == '\t' || *p == '\n') {
            p++;
            continue;
        }
        if (strchr("EtmL|", *p) == NULL) {
            return orr_fail(err, ORR_E_SYNTAX,
                            "the layout has '%c'; it is made of E, t, m, L, | and \"(x)*n\"", *p);
        }
        uint32_t times = 1;
        const char *after = read_times(p + 1, &times);
        ORR_TRY(repeat(out, p, 1, times, err));
        p = after != NULL ? after : p + 1;
    }
    return ORR_OK;
}

static orr_status check_order(const char *flat, orr_err *err) {
    const char *e = strchr(flat, 'E'), *l = strchr(flat, 'L');
    const char *m = strchr(flat, 'm'), *t = strrchr(flat, 't');
    if (e == NULL || e != flat || strchr(e + 1, 'E') != NULL) {
        return orr_fail(err, ORR_E_SCHEMA, "a layout starts with its one E (embedding)");
    }
    if (l == NULL || l[1] != '\0') {
        return orr_fail(err, ORR_E_SCHEMA, "a layout ends with its one L (loss)");
    }
    if (m != NULL && t != NULL && m < t) {
        return orr_fail(err, ORR_E_SCHEMA, "in a layout every m comes after the last t");
    }
    const char *bar = m == NULL ? NULL : strchr(m, '|');
    if (bar != NULL && strchr(bar, 'm') != NULL) {
        return orr_fail(err, ORR_E_SCHEMA, "in a layout every m stands in one stage");
    }
    return ORR_OK;
}

static orr_status count_stages(orr_arena *arena, const char *flat, orr_layout *layout,
                               orr_err *err) {
    uint32_t stages = 1, stage = 0;
    for (const char *p = flat; *p != '\0'; p++) {
        stages += *p == '|';
    }
    if (stages > LAYOUT_MAX_STAGES) {
        return orr_fail(err, ORR_E_LIMIT, "the layout has %u stages, more than %d", stages,
                        LAYOUT_MAX_STAGES);
    }
    uint16_t *layers = ORR_NEW_ARRAY(arena, uint16_t, stages);
    layout->mtp_stage = stages - 1;
    for (const char *p = flat; *p != '\0'; p++) {
        stage += *p == '|';
        layers[stage] = (uint16_t)(layers[stage] + (*p == 't'));
        if (*p == 'm') {
            layout->mtp_stage = stage;
            layout->mtp_layers++;
        }
    }
    layout->stages = stages;
    layout->layers = layers;
    return ORR_OK;
}

orr_status orr_layout_read(orr_arena *arena, const char *text, orr_layout **out, orr_err *err) {
    if (strlen(text) > LAYOUT_MAX) {
        return too_long(err);
    }
    orr_layout *layout = ORR_NEW(arena, orr_layout);
    orr_text groups = orr_text_new(arena, LAYOUT_MAX + 1);
    orr_text flat = orr_text_new(arena, LAYOUT_MAX + 1);
    ORR_TRY(expand_groups(&groups, text, err));
    ORR_TRY(expand_letters(&flat, orr_text_done(&groups), err));
    ORR_TRY(check_order(orr_text_done(&flat), err));
    ORR_TRY(count_stages(arena, orr_text_done(&flat), layout, err));
    layout->text = orr_arena_text(arena, text);
    *out = layout;
    return ORR_OK;
}
