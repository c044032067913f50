/* Answers of the tool belt for people: rows of plans, where time and bytes go, what differs. */
#include <string.h>

#include "orrery/orrery.h"
#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static const char *text(const orr_tree *node, const char *path) {
    return orr_tree_text(orr_tree_path(node, path), "");
}

/* "tp 4, recompute full"; what an axis takes along to its default is left out. */
static const char *change_words(orr_page *page, const orr_tree *plan) {
    orr_text out = orr_text_new(page->arena, 2000);
    for (size_t i = 0; i < orr_tree_size(plan); i++) {
        const orr_tree *value = orr_tree_at(plan, i);
        if (orr_tree_kind_of(value) != ORR_TREE_NULL) {
            const char *word = orr_tree_text(value, NULL);
            orr_text_format(&out, "%s%s %s", out.length > 0 ? ", " : "", orr_tree_key(plan, i),
                            word != NULL ? word : orr_write_json(page->arena, value, false));
        }
    }
    return out.length > 0 ? orr_text_done(&out) : "as it is";
}

static void add_why_not(orr_page *page, const orr_tree *row) {
    const orr_tree *rules = orr_tree_get(row, "rules");
    const char *error = text(row, "error.message");
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const orr_tree *rule = orr_tree_at(rules, i);
        if (strcmp(text(rule, "effect"), "warning") != 0) {
            orr_page_add(page, "      [%s] %s\n", text(rule, "id"), text(rule, "message"));
        }
    }
    if (*error != '\0') {
        orr_page_add(page, "      %s\n", error);
    }
}

static void add_row_head(orr_page *page) {
    orr_page_add(page, "   tok/s/GPU        90 %%           memory  P(OOM)  plan\n");
}

static void add_row(orr_page *page, const orr_tree *row, const char *mark) {
    bool legal = orr_tree_bool(orr_tree_get(row, "legal"), true);
    bool fits = orr_tree_bool(orr_tree_get(row, "fits"), false);
    const char *words = change_words(page, orr_tree_get(row, "plan"));
    if (!legal) {
        orr_page_ink(page, INK_BAD);
        orr_page_add(page, "%s %-40s", mark, "illegal");
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, "  %s\n", words);
        add_why_not(page, row);
        return;
    }
    const orr_tree *interval = orr_tree_get(row, "interval_90");
    orr_page_ink(page, fits ? INK_PLAIN : INK_BAD);
    orr_page_add(page, "%s %9s  %7s to %-7s  %4.0f %%%s  %3.0f %%", mark,
                 orr_page_count(page, real(row, "tokens_per_s_per_gpu")),
                 orr_page_count(page, orr_tree_real(orr_tree_at(interval, 0), 0)),
                 orr_page_count(page, orr_tree_real(orr_tree_at(interval, 1), 0)),
                 100 * real(row, "memory.of_usable_frac"), fits ? "    " : " OOM",
                 100 * real(row, "p_oom"));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "  %s\n", words);
}

void orr_render_evaluate(orr_page *page, const orr_tree *envelope) {
    const orr_tree *rows = orr_tree_path(envelope, "result.rows");
    int64_t best = orr_tree_int(orr_tree_path(envelope, "result.best"), -1);
    add_row_head(page);
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        add_row(page, orr_tree_at(rows, i), (int64_t)i == best ? "*" : " ");
    }
    orr_page_add(page, "%s\n", best < 0 ? "None of them fits." : "* the fastest that fits");
}

static void add_neighbor_rows(orr_page *page, const orr_tree *rows) {
    orr_page_add(page, "   tok/s/GPU     gain  memory       change\n");
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        bool fits = orr_tree_bool(orr_tree_get(row, "fits"), false);
        orr_page_ink(page, !fits ? INK_BAD : real(row, "gain") > 0 ? INK_GOOD : INK_PLAIN);
        orr_page_add(page, "  %10s  %+5.1f %%  %4.0f %%%s",
                     orr_page_count(page, real(row, "tokens_per_s_per_gpu")),
                     100 * real(row, "gain"), 100 * real(row, "memory_frac"),
                     fits ? "    " : " OOM");
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, "  %s\n", change_words(page, orr_tree_get(row, "plan")));
    }
}

void orr_render_neighbors(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    add_row_head(page);
    add_row(page, orr_tree_get(result, "base"), " ");
    orr_page_heading(page, "One change away");
    add_neighbor_rows(page, orr_tree_get(result, "rows"));
    orr_page_add(page, "  and %.0f that rules refuse\n", real(result, "refused_by_rules"));
}

static const char *value_text(orr_page *page, const orr_tree *value) {
    const char *word = orr_tree_text(value, NULL);
    return word != NULL ? word : value == NULL ? "-" : orr_write_json(page->arena, value, false);
}

static void add_differences(orr_page *page, const orr_tree *list, const char *title, bool bytes) {
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_heading(page, title);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        double a = real(one, "a"), b = real(one, "b"), more = b - a;
        const char *sign = more < 0 ? "-" : "+";
        more = more < 0 ? -more : more;
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "what"), 20);
        orr_page_add(page, "%11s  %11s  %s%s\n",
                     bytes ? orr_page_bytes(page, a) : orr_page_seconds(page, a),
                     bytes ? orr_page_bytes(page, b) : orr_page_seconds(page, b), sign,
                     bytes ? orr_page_bytes(page, more) : orr_page_seconds(page, more));
    }
}

void orr_render_compare(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *keys = orr_tree_get(result, "keys");
    add_row_head(page);
    add_row(page, orr_tree_get(result, "a"), "a");
    add_row(page, orr_tree_get(result, "b"), "b");
    if (orr_tree_get(result, "gain") != NULL) {
        bool overlap = orr_tree_bool(orr_tree_get(result, "intervals_overlap"), true);
        orr_page_add(page, "b against a: %+.1f %%%s\n", 100 * real(result, "gain"),
                     overlap ? "; their intervals overlap, and share most of their error" : "");
    }
    if (orr_tree_size(keys) == 0) {
        orr_page_add(page, "Both are the same plan.\n");
        return;
    }
    orr_page_heading(page, "Keys that differ");
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const orr_tree *one = orr_tree_at(keys, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "key"), 20);
        orr_page_cell(page, value_text(page, orr_tree_get(one, "a")), 24);
        orr_page_add(page, " %s\n", value_text(page, orr_tree_get(one, "b")));
    }
    add_differences(page, orr_tree_get(result, "time_s"), "Time of a step: a, b, difference",
                    false);
    add_differences(page, orr_tree_get(result, "bytes"),
                    "Bytes of the fullest rank: a, b, difference", true);
}

void orr_render_sensitivity(orr_page *page, const orr_tree *envelope) {
    const orr_tree *rows = orr_tree_path(envelope, "result.rows");
    add_row_head(page);
    add_row(page, orr_tree_path(envelope, "result.plan"), " ");
    bool kinked = false;
    orr_page_heading(page, "Throughput by a figure of the machine");
    orr_page_add(page, "  figure      per 1 %%   10 %% less  10 %% more\n");
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *one = orr_tree_at(rows, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "figure"), 10);
        if (orr_tree_get(one, "error") != NULL) {
            orr_page_add(page, "  %s\n", text(one, "error"));
            continue;
        }
        orr_page_add(page, "  %+5.2f %%    %+6.1f %%    %+6.1f %%  %s\n", real(one, "elasticity"),
                     100 * real(one, "less_10_percent"), 100 * real(one, "more_10_percent"),
                     text(one, "is"));
        kinked = kinked || (strcmp(text(one, "figure"), "peak") == 0 &&
                            real(one, "more_10_percent") > -1.25 * real(one, "less_10_percent"));
    }
    if (kinked) {
        orr_page_add(page,
                     "  a lower peak under the same power limit throttles less: it costs less "
                     "than a higher one gains\n");
    }
}

void orr_render_next(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *list = orr_tree_get(result, "candidates");
    const orr_tree *next = orr_tree_get(result, "next"), *refused = orr_tree_get(result, "refused");
    int64_t chosen = orr_tree_int(orr_tree_get(next, "candidate"), -1);
    orr_page_add(page, "  projected   expected  P(best)  plan\n");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "%s %9s  %9s    %3.0f %%  %s\n", (int64_t)i == chosen ? "*" : " ",
                     orr_page_count(page, real(one, "projected")),
                     orr_page_count(page, real(one, "expected")), 100 * real(one, "p_best"),
                     change_words(page, orr_tree_get(one, "plan")));
    }
    for (size_t i = 0; i < orr_tree_size(refused); i++) {
        const orr_tree *one = orr_tree_at(refused, i);
        orr_page_ink(page, INK_BAD);
        orr_page_add(page, "  no candidate");
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, ": %s: %s\n", change_words(page, orr_tree_get(one, "plan")),
                     text(one, "why"));
    }
    if (chosen >= 0) {
        orr_page_add(page, "* measure this one: it is expected to gain %.2f %% in %s\n",
                     100 * real(next, "expected_gain_frac"),
                     orr_page_seconds(page, real(next, "measure_s")));
    } else {
        orr_page_add(page, "%s\n",
                     orr_tree_size(list) > 0 ? "Nothing is worth measuring any more."
                                             : "There is no candidate.");
    }
}
