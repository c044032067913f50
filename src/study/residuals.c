/* What projections of published runs leave: for each class of rows, the ratios of measured to
 * projected throughput below and above which 5 % of them lie. Ranks are those of a fresh
 * observation, so that a class of n rows covers 90 % of the next one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study_int.h"

enum { MIN_ROWS = 20, LEVELS = 5 };

/* Which of software, kind and arch a level keeps. */
static const bool keeps[LEVELS][3] = {{true, true, true},
                                      {true, true, false},
                                      {true, false, false},
                                      {false, true, false},
                                      {false, false, false}};

typedef struct member {
    const char *name[3];
    double log_ratio;
} member;

static int by_names(const void *a, const void *b) {
    const member *x = (const member *)a, *y = (const member *)b;
    for (int i = 0; i < 3; i++) {
        int order = strcmp(x->name[i], y->name[i]);
        if (order != 0) {
            return order;
        }
    }
    return (x->log_ratio > y->log_ratio) - (x->log_ratio < y->log_ratio);
}

static bool same_names(const member *x, const member *y) {
    return strcmp(x->name[0], y->name[0]) == 0 && strcmp(x->name[1], y->name[1]) == 0 &&
           strcmp(x->name[2], y->name[2]) == 0;
}

/* Four digits: more than twenty rows can tell. */
static double rounded(double ratio) {
    return floor(ratio * 1e4 + 0.5) / 1e4;
}

static void add_class(orr_arena *arena, orr_tree *list, const member *members, uint32_t count,
                      const char *scaling) {
    uint32_t low = (uint32_t)floor((count + 1) * 0.05), high = (uint32_t)ceil((count + 1) * 0.95);
    low = low < 1 ? 1 : low;
    high = high > count ? count : high;
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "software", members->name[0]);
    orr_tree_put_text(arena, one, "kind", members->name[1]);
    orr_tree_put_text(arena, one, "arch", members->name[2]);
    orr_tree_put_text(arena, one, "scaling", scaling);
    orr_tree_put_int(arena, one, "rows", count);
    /* An interval holds its projection. */
    orr_tree_put_real(arena, one, "low_ratio", rounded(fmin(1, exp(members[low - 1].log_ratio))));
    orr_tree_put_real(arena, one, "high_ratio", rounded(fmax(1, exp(members[high - 1].log_ratio))));
}

static void add_classes(orr_arena *arena, orr_tree *list, const orr_residual *all, uint32_t count,
                        const char *scaling) {
    member *members = ORR_NEW_ARRAY(arena, member, count);
    for (int level = 0; level < LEVELS; level++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(all[i].scaling, scaling) == 0) {
                const orr_judged *row = all[i].row;
                const char *const names[] = {
                    row->software, row->kind,
                    orr_arch_name((orr_arch)row->resolved->cluster->accelerator->arch)};
                for (int k = 0; k < 3; k++) {
                    members[n].name[k] = keeps[level][k] ? names[k] : "any";
                }
                members[n++].log_ratio = all[i].log_ratio;
            }
        }
        if (n > 0) {
            qsort(members, n, sizeof *members, by_names);
        }
        for (uint32_t i = 0, end; i < n; i = end) {
            for (end = i + 1; end < n && same_names(&members[i], &members[end]); end++) {
            }
            if (end - i >= MIN_ROWS) {
                add_class(arena, list, &members[i], end - i, scaling);
            }
        }
    }
}

static int by_gpu(const void *a, const void *b) {
    const char *const *x = (const char *const *)a, *const *y = (const char *const *)b;
    return strcmp(*x, *y);
}

static orr_tree *count_devices(orr_arena *arena, const orr_residual *all, uint32_t count) {
    orr_tree *list = orr_tree_new_list(arena);
    const char **names = ORR_NEW_ARRAY(arena, const char *, count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(all[i].scaling, "none") == 0) {
            names[n++] = all[i].row->gpu;
        }
    }
    if (n > 0) {
        qsort(names, n, sizeof *names, by_gpu);
    }
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && strcmp(names[i], names[end]) == 0; end++) {
        }
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "name", names[i]);
        orr_tree_put_int(arena, one, "rows", end - i);
    }
    return list;
}

orr_tree *orr_residuals_write(orr_arena *arena, const orr_residual *all, uint32_t count) {
    static const char *const scalings[] = {"none", "weak", "strong"};
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *classes = orr_tree_put(arena, map, "classes", orr_tree_new_list(arena));
    for (size_t s = 0; s < sizeof scalings / sizeof *scalings; s++) {
        add_classes(arena, classes, all, count, scalings[s]);
    }
    (void)orr_tree_put(arena, map, "devices", count_devices(arena, all, count));
    return map;
}
