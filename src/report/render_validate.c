/* What a validation found, for people: the headline, tables by source and device, what was left
 * out, rank inside series, anchored pairs, verdicts. */
#include <math.h>
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static long long whole(const orr_tree *node, const char *path) {
    return (long long)orr_tree_int(orr_tree_path(node, path), 0);
}

static const char *text(const orr_tree *node, const char *path) {
    return orr_tree_text(orr_tree_path(node, path), "");
}

/* ---- tables of summaries -------------------------------------------------------------------- */

typedef struct column {
    const char *key, *title;
    uint32_t width;
    enum { COUNT, SHARE, SIGNED } shape;
} column;

static const column run_columns[] = {
    {"rows", "rows", 7, COUNT},
    {"projected", "proj", 7, COUNT},
    {"median_abs_err", "median", 8, SHARE},
    {"mean_abs_err", "mean", 8, SHARE},
    {"p90_abs_err", "p90", 8, SHARE},
    {"bias", "bias", 8, SIGNED},
    {"coverage_90", "in 90%", 8, SHARE},
    {"width_90", "width", 8, SHARE},
};
static const column kernel_columns[] = {
    {"rows", "rows", 8, COUNT},          {"priced", "priced", 8, COUNT},
    {"median_ape", "median", 8, SHARE},  {"mape", "mean", 8, SHARE},
    {"p90_ape", "p90", 8, SHARE},        {"bias", "bias", 8, SIGNED},
    {"coverage_90", "in 90%", 8, SHARE}, {"width_90", "width", 8, SHARE},
};

typedef struct table {
    const column *columns;
    size_t count;
} table;

static table table_of(const orr_tree *summary) {
    return orr_tree_get(summary, "priced") != NULL
               ? (table){kernel_columns, sizeof kernel_columns / sizeof *kernel_columns}
               : (table){run_columns, sizeof run_columns / sizeof *run_columns};
}

static void add_right(orr_page *page, const char *value, uint32_t width) {
    orr_page_add(page, "%*s", (int)width, value);
}

/* Below a tenth with one decimal, else whole per cents. */
static const char *percent(orr_page *page, double share, bool sign) {
    double shown = 100 * share;
    int digits = fabs(shown) < 99.95 ? 1 : 0;
    return sign ? orr_arena_format(page->arena, "%+.*f", digits, shown)
                : orr_arena_format(page->arena, "%.*f", digits, shown);
}

static uint32_t name_width(const orr_page *page, const table *t) {
    uint32_t taken = 4;
    for (size_t c = 0; c < t->count; c++) {
        taken += t->columns[c].width;
    }
    uint32_t left = page->options.width > taken ? page->options.width - taken : 0;
    return left < 16 ? 16 : left > 60 ? 60 : left;
}

static void add_head(orr_page *page, const table *t, const char *title) {
    orr_page_add(page, "\n");
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "  ");
    orr_page_cell(page, title, name_width(page, t));
    for (size_t c = 0; c < t->count; c++) {
        add_right(page, t->columns[c].title, t->columns[c].width);
    }
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "\n");
}

/* `few`: fewer rows than a figure can rest on. */
static void add_row(orr_page *page, const table *t, const char *name, const orr_tree *one) {
    enum { FEW = 20 };
    bool few = real(one, t->columns[0].key) < FEW;
    orr_page_add(page, "%s", few ? " *" : "  ");
    orr_page_cell(page, name, name_width(page, t));
    for (size_t c = 0; c < t->count; c++) {
        const column *at = &t->columns[c];
        const orr_tree *node = orr_tree_get(one, at->key);
        add_right(page,
                  node == NULL         ? "-"
                  : at->shape == COUNT ? orr_arena_format(page->arena, "%lld", whole(one, at->key))
                                       : percent(page, orr_tree_real(node, 0), at->shape == SIGNED),
                  at->width);
    }
    orr_page_add(page, "\n");
}

static void add_group(orr_page *page, const orr_tree *group, const char *title, size_t most) {
    size_t count = orr_tree_size(group);
    if (count == 0) {
        return;
    }
    table t = table_of(orr_tree_at(group, 0));
    add_head(page, &t, orr_arena_format(page->arena, "by %s", title));
    for (size_t i = 0; i < count && i < most; i++) {
        add_row(page, &t, orr_tree_key(group, i), orr_tree_at(group, i));
    }
    if (count > most) {
        orr_page_add(page, "    and %zu more (-v shows all)\n", count - most);
    }
}

static void add_groups(orr_page *page, const orr_tree *envelope) {
    const orr_tree *by = orr_tree_get(envelope, "by");
    size_t most = page->options.verbose ? SIZE_MAX : 40;
    for (size_t i = 0; i < orr_tree_size(by); i++) {
        add_group(page, orr_tree_at(by, i), orr_tree_key(by, i), most);
    }
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void add_headline(orr_page *page, const orr_tree *summary) {
    table t = table_of(summary);
    add_head(page, &t, "errors in per cent");
    add_row(page, &t, "all", summary);
    if (orr_tree_real(orr_tree_get(summary, "macro_median"), 0) > 0) {
        orr_page_add(page, "  mean over sources of their median: %s %%\n",
                     percent(page, real(summary, "macro_median"), false));
    }
    if (orr_tree_get(summary, "fitted_parameters") != NULL) {
        orr_page_add(page, "  fitted parameters in the software profiles used: %lld\n",
                     whole(summary, "fitted_parameters"));
    }
}

static void add_skipped(orr_page *page, const orr_tree *skipped) {
    size_t count = orr_tree_size(skipped), most = page->options.verbose ? SIZE_MAX : 12;
    if (count == 0) {
        return;
    }
    orr_page_heading(page, "Not projected");
    for (size_t i = 0; i < count && i < most; i++) {
        const orr_tree *one = orr_tree_at(skipped, i);
        orr_page_add(page, "  %6lld  ", whole(one, "count"));
        orr_page_cell(page, text(one, "reason"),
                      page->options.width > 12 ? page->options.width - 12 : 20);
        orr_page_add(page, "\n");
        if (page->options.verbose && orr_tree_get(one, "example") != NULL) {
            orr_page_add(page, "          such as %s\n", text(one, "example"));
        }
    }
    if (count > most) {
        orr_page_add(page, "          and %zu more reasons (-v shows all)\n", count - most);
    }
}

/* Kernels without a model, by device. */
static void add_unpriced(orr_page *page, const orr_tree *unpriced) {
    size_t count = orr_tree_size(unpriced), most = page->options.verbose ? SIZE_MAX : 12;
    if (count == 0) {
        return;
    }
    orr_page_heading(page, "Not priced");
    for (size_t i = 0; i < count && i < most; i++) {
        const orr_tree *one = orr_tree_at(unpriced, i);
        orr_page_add(page, "  %7lld  %s: %s\n", whole(one, "count"), text(one, "device_dtype"),
                     text(one, "why"));
    }
    if (count > most) {
        orr_page_add(page, "           and %zu more (-v shows all)\n", count - most);
    }
}

static void add_series(orr_page *page, const orr_tree *series) {
    if (series == NULL) {
        return;
    }
    orr_page_heading(page, "Ranking of configurations inside a series");
    orr_page_add(page,
                 "  %lld series   Kendall tau mean %.2f, median %.2f   regret mean %.1f %%, median "
                 "%.1f %%   best of the first three %.1f %%\n",
                 whole(series, "count"), real(series, "mean_kendall_tau"),
                 real(series, "median_kendall_tau"), 100 * real(series, "mean_regret"),
                 100 * real(series, "median_regret"), 100 * real(series, "top3_regret"));
}

static void add_ladders(orr_page *page, const orr_tree *ladders) {
    for (size_t i = 0; i < orr_tree_size(ladders); i++) {
        const orr_tree *one = orr_tree_at(ladders, i), *steps = orr_tree_get(one, "steps");
        orr_page_heading(page, orr_arena_format(page->arena, "Changes one by one: %s on %lld %s",
                                                text(one, "model"), whole(one, "gpus"),
                                                text(one, "gpu")));
        orr_page_add(page, "  %-40s%10s%10s%8s%10s%10s\n", "", "measured", "projected", "error",
                     "gain", "projected");
        for (size_t k = 0; k < orr_tree_size(steps); k++) {
            const orr_tree *step = orr_tree_at(steps, k);
            bool gains = orr_tree_get(step, "measured_gain") != NULL;
            orr_page_add(page, "  ");
            orr_page_cell(page, text(step, "lever"), 40);
            orr_page_add(page, "%10.0f%10.0f%8s%10s%10s\n", real(step, "measured"),
                         real(step, "projected"), percent(page, real(step, "error"), true),
                         gains ? percent(page, real(step, "measured_gain"), true) : "",
                         gains ? percent(page, real(step, "projected_gain"), true) : "");
        }
        orr_page_add(page, "  %lld of %lld signs right   Kendall tau %.2f\n",
                     whole(one, "signs_right"), whole(one, "signs_told"), real(one, "kendall_tau"));
    }
}

static void add_anchored(orr_page *page, const orr_tree *anchored) {
    if (anchored == NULL) {
        return;
    }
    orr_page_heading(page, "One scale measured, others projected");
    static const char *const kinds[] = {"weak", "strong"};
    for (size_t i = 0; i < 2; i++) {
        const orr_tree *one = orr_tree_get(anchored, kinds[i]);
        orr_page_add(page,
                     "  %-6s %5lld pairs   median error %.2f %%   p90 %.1f %%   constant "
                     "throughput %.2f %%   skill %.2f\n",
                     kinds[i], whole(one, "pairs"), 100 * real(one, "median_abs_err"),
                     100 * real(one, "p90_abs_err"), 100 * real(one, "null_median_abs_err"),
                     real(one, "skill"));
    }
}

static void add_verdict_row(orr_page *page, const char *name, const orr_tree *one) {
    uint32_t width = page->options.width > 68 ? page->options.width - 68 : 16;
    static const char *const keys[] = {
        "ran_fits",   "ran_oom", "ran_does_not_start", "failed_oom", "failed_does_not_start",
        "failed_fits"};
    orr_page_add(page, "  ");
    orr_page_cell(page, name, width);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_page_add(page, "%8lld", whole(one, keys[i]));
    }
    orr_page_add(page, "%9.1f%8.3f\n", 100 * real(one, "balanced_accuracy"), real(one, "brier"));
}

static void add_verdicts(orr_page *page, const orr_tree *verdict) {
    if (verdict == NULL) {
        return;
    }
    uint32_t width = page->options.width > 68 ? page->options.width - 68 : 16;
    const orr_tree *by = orr_tree_path(verdict, "by.source");
    orr_page_heading(page, "Verdicts: what ran, what failed, and what was said of it");
    orr_page_add(page, "  ");
    orr_page_cell(page, "", width);
    orr_page_add(page, "    ran:                 failed:                 balanced\n  ");
    orr_page_cell(page, "", width);
    orr_page_add(page, "    fits     OOM no start     OOM no start    fits      %%   Brier\n");
    add_verdict_row(page, "all", verdict);
    for (size_t i = 0; i < orr_tree_size(by); i++) {
        const orr_tree *one = orr_tree_at(by, i);
        bool all_right = whole(one, "ran_oom") + whole(one, "ran_does_not_start") +
                             whole(one, "failed_fits") + whole(one, "failed_oom") ==
                         0;
        if (!all_right || page->options.verbose) {
            add_verdict_row(page, orr_tree_key(by, i), one);
        }
    }
    if (!page->options.verbose) {
        orr_page_add(page, "  (sources of which every run fits as projected: -v)\n");
    }
}

/* Every verdict that was wrong by more than a hair, in the order of the file. */
static void add_mistakes(orr_page *page, const orr_tree *verdict) {
    const orr_tree *list = orr_tree_get(verdict, "mistakes");
    if (verdict == NULL || orr_tree_size(list) == 0) {
        return;
    }
    orr_page_add(page,
                 "\n  of the runs that state what they recompute %lld of %lld are called out of "
                 "memory\n",
                 whole(verdict, "ran_stated_oom"), whole(verdict, "ran_stated"));
    orr_page_heading(page, "Mistakes with more than 5 % of clearance");
    size_t shown = page->options.verbose ? orr_tree_size(list) : 12;
    for (size_t i = 0; i < orr_tree_size(list) && i < shown; i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "  row %5lld  %-6s  need %6.1f of %6.1f GiB  ", whole(one, "index"),
                     orr_tree_bool(orr_tree_get(one, "failed"), false) ? "failed" : "ran",
                     real(one, "need_gib"), real(one, "line_gib"));
        orr_page_cell(page, orr_tree_text(orr_tree_get(one, "source"), ""), 26);
        orr_page_add(page, " %s\n", orr_tree_text(orr_tree_get(one, "cause"), ""));
    }
    if (shown < orr_tree_size(list)) {
        orr_page_add(page, "  (%zu more: -v)\n", orr_tree_size(list) - shown);
    }
}

static void add_disturbed(orr_page *page, const orr_tree *disturbed) {
    size_t count = orr_tree_size(disturbed);
    if (count == 0) {
        return;
    }
    orr_page_heading(page, "Disturbed by a rule that needs no model");
    orr_page_add(
        page,
        "  %zu runs are slower by a quarter or more than the same configuration and batch on "
        "as many\n  GPUs or more:",
        count);
    for (size_t i = 0; i < count && (i < 30 || page->options.verbose); i++) {
        orr_page_add(page, " %lld", whole(orr_tree_at(disturbed, i), "index"));
    }
    orr_page_add(page, "%s\n", count > 30 && !page->options.verbose ? " ..." : "");
}

static void add_ablations(orr_page *page, const orr_tree *ablations) {
    if (orr_tree_size(ablations) == 0) {
        return;
    }
    orr_page_heading(page, "Without one effect at a time (errors in per cent)");
    orr_page_add(page, "  ");
    orr_page_cell(page, "switched off", 34);
    orr_page_add(page, "  median    mean     p90    bias     tau  regret\n");
    for (size_t i = 0; i < orr_tree_size(ablations); i++) {
        const orr_tree *one = orr_tree_at(ablations, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "effect"), 34);
        orr_page_add(page, "%8.1f%8.1f%8.1f%+8.1f%8.2f%8.1f\n",
                     100 * real(one, "summary.median_abs_err"),
                     100 * real(one, "summary.mean_abs_err"),
                     100 * real(one, "summary.p90_abs_err"), 100 * real(one, "summary.bias"),
                     real(one, "series.mean_kendall_tau"), 100 * real(one, "series.mean_regret"));
    }
}

static void add_check(orr_page *page, const orr_tree *check) {
    if (check == NULL) {
        return;
    }
    const orr_tree *failures = orr_tree_get(check, "failures");
    bool passed = orr_tree_bool(orr_tree_get(check, "passed"), false);
    orr_page_heading(page, passed ? "The committed headline holds" : "Worse than committed");
    for (size_t i = 0; i < orr_tree_size(failures); i++) {
        const orr_tree *one = orr_tree_at(failures, i);
        orr_page_ink(page, INK_BAD);
        orr_page_add(page, "  %s is %.6g, committed %.6g (%s is better)\n", text(one, "path"),
                     real(one, "value"), real(one, "expected"), text(one, "better"));
        orr_page_ink(page, INK_PLAIN);
    }
}

/* ---- exact truths --------------------------------------------------------------------------- */

static void add_vectors(orr_page *page, const orr_tree *envelope) {
    orr_page_add(page, "%lld of %lld recorded schedules exact; %lld orders made anew\n",
                 whole(envelope, "summary.exact"), whole(envelope, "summary.vectors"),
                 whole(envelope, "summary.orders_made"));
    const orr_tree *failures = orr_tree_get(envelope, "failures");
    for (size_t i = 0; i < orr_tree_size(failures); i++) {
        const orr_tree *one = orr_tree_at(failures, i);
        orr_page_add(page, "  %s: %s\n", text(one, "file"), text(one, "what"));
    }
    const orr_tree *lists = orr_tree_get(envelope, "lists");
    for (size_t i = 0; i < orr_tree_size(lists); i++) {
        const orr_tree *one = orr_tree_at(lists, i);
        orr_page_add(page, "  %s: %lld of %lld equal, %lld left out\n", text(one, "file"),
                     whole(one, "equal"), whole(one, "cases"), whole(one, "left_out"));
    }
}

static void add_saved(orr_page *page, const orr_tree *envelope) {
    orr_page_add(page, "%lld of %lld cases exact; largest difference %.0f bytes\n",
                 whole(envelope, "summary.exact"), whole(envelope, "summary.cases"),
                 real(envelope, "summary.worst_difference_bytes"));
    const orr_tree *cases = orr_tree_get(envelope, "cases");
    for (size_t i = 0; i < orr_tree_size(cases); i++) {
        const orr_tree *one = orr_tree_at(cases, i), *modules = orr_tree_get(one, "modules");
        if (orr_tree_get(one, "failed") != NULL) {
            orr_page_add(page, "  %s: %s\n", text(one, "name"), text(one, "failed"));
        }
        for (size_t k = 0; k < orr_tree_size(modules); k++) {
            const orr_tree *module = orr_tree_at(modules, k);
            orr_page_add(page, "  %s: %s has %.0f bytes, counted %.0f\n", text(one, "name"),
                         text(module, "module"), real(module, "saved_bytes"),
                         real(module, "counted_bytes"));
        }
    }
}

static void add_layouts(orr_page *page, const orr_tree *envelope) {
    orr_page_add(page, "%lld of %lld layouts identical\n", whole(envelope, "summary.identical"),
                 whole(envelope, "summary.layouts"));
    const orr_tree *failures = orr_tree_get(envelope, "failures");
    for (size_t i = 0; i < orr_tree_size(failures); i++) {
        const orr_tree *one = orr_tree_at(failures, i);
        orr_page_add(page, "  layout %lld: %s\n", whole(one, "layout"), text(one, "what"));
    }
}

void orr_render_validate(orr_page *page, const orr_tree *envelope) {
    const orr_tree *summary = orr_tree_get(envelope, "summary");
    if (orr_tree_get(summary, "vectors") != NULL) {
        add_vectors(page, envelope);
    } else if (orr_tree_get(summary, "layouts") != NULL) {
        add_layouts(page, envelope);
    } else if (orr_tree_get(summary, "cases") != NULL) {
        add_saved(page, envelope);
    } else {
        add_headline(page, summary);
        add_groups(page, envelope);
        add_series(page, orr_tree_get(envelope, "series"));
        add_ladders(page, orr_tree_get(envelope, "ladders"));
        add_anchored(page, orr_tree_get(envelope, "anchored"));
        add_verdicts(page, orr_tree_get(envelope, "verdict"));
        add_mistakes(page, orr_tree_get(envelope, "verdict"));
        add_ablations(page, orr_tree_get(envelope, "ablations"));
        add_disturbed(page, orr_tree_get(envelope, "disturbed"));
        add_skipped(page, orr_tree_get(envelope, "skipped"));
        add_unpriced(page, orr_tree_get(envelope, "unpriced"));
        orr_page_add(page, "\n  * fewer than 20 rows: indicative only\n");
    }
    add_check(page, orr_tree_get(envelope, "check"));
}
