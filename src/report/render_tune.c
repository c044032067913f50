/* What a search found: the best plan, the certificate, those behind it, time against memory. */
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static const char *count_text(orr_page *page, const orr_tree *node, const char *path) {
    double value = real(node, path);
    return value < 1e6 ? orr_arena_format(page->arena, "%.0f", value) : orr_page_count(page, value);
}

/* "tp 8 pp 4 vpp 2 ...": what is 1, off or the default of everything is left out. */
static const char *plan_words(orr_page *page, const orr_tree *plan) {
    static const char *const degrees[] = {"tp", "pp", "vpp", "cp", "ep", "etp", "mbs"};
    static const char *const words[] = {"schedule", "layout",    "placement",
                                        "sharding", "recompute", "dispatch"};
    orr_text text = orr_text_new(page->arena, 400);
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        int64_t value = orr_tree_int(orr_tree_get(plan, degrees[i]), 1);
        if (value > 1 || strcmp(degrees[i], "mbs") == 0) {
            orr_text_format(&text, "%s %lld ", degrees[i], (long long)value);
        }
    }
    bool pipeline = orr_tree_int(orr_tree_get(plan, "pp"), 1) > 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *value = orr_tree_text(orr_tree_get(plan, words[i]), "");
        bool pipe = i < 3, plain = strcmp(value, "even") == 0 || strcmp(value, "none") == 0 ||
                                   strcmp(value, "alltoall") == 0 || *value == '\0';
        if (!plain && (!pipe || pipeline)) {
            orr_text_format(&text, "%s%s ", strcmp(words[i], "recompute") == 0 ? "recompute " : "",
                            value);
        }
    }
    if (orr_tree_int(orr_tree_get(plan, "first_layers"), 0) > 0) {
        orr_text_format(&text, "layers %lld..%lld ",
                        (long long)orr_tree_int(orr_tree_get(plan, "first_layers"), 0),
                        (long long)orr_tree_int(orr_tree_get(plan, "last_layers"), 0));
    }
    const orr_tree *overlap = orr_tree_get(plan, "overlap");
    for (size_t i = 0; i < orr_tree_size(overlap); i++) {
        orr_text_format(&text, "%s%s", i == 0 ? "overlap " : "+",
                        orr_tree_text(orr_tree_at(overlap, i), ""));
    }
    return orr_text_done(&text);
}

/* Days, money and energy of the run, where they were asked for. */
static void add_run(orr_page *page, const orr_tree *one) {
    static const struct {
        const char *key, *unit;
    } parts[] = {{"train_days", "days"},
                 {"cost", "of money"},
                 {"energy_kwh", "kWh"},
                 {"cluster_cost_per_hour", "of money an hour"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (real(one, parts[i].key) > 0) {
            orr_page_add(page, "   %.5g %s", real(one, parts[i].key), parts[i].unit);
        }
    }
}

static void add_best(orr_page *page, const orr_tree *result) {
    const orr_tree *best = orr_tree_get(result, "best");
    orr_page_ink(page, INK_GOOD);
    orr_page_add(page, "%s tokens/s/GPU", orr_page_count(page, real(best, "tokens_per_s_per_gpu")));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(
        page, "   90 %%: %s to %s",
        orr_page_count(page, orr_tree_real(orr_tree_at(orr_tree_get(best, "interval_90"), 0), 0)),
        orr_page_count(page, orr_tree_real(orr_tree_at(orr_tree_get(best, "interval_90"), 1), 0)));
    orr_page_add(page, "   step %s   MFU %.1f %%   %s of memory, %.0f %% free\n",
                 orr_page_seconds(page, real(best, "step_time_s")), 100 * real(best, "mfu"),
                 orr_page_bytes(page, real(best, "memory.allocated_bytes")),
                 100 * real(best, "headroom_frac"));
    const orr_tree *plan = orr_tree_get(best, "plan");
    orr_page_add(page, "  %lld x %s: %s\n", (long long)orr_tree_int(orr_tree_get(plan, "gpus"), 0),
                 orr_tree_text(orr_tree_get(plan, "hardware"), "?"), plan_words(page, plan));
    const char *fit = orr_tree_text(orr_tree_path(best, "verdict.fit"), "fits");
    bool tight = strcmp(fit, "tight") == 0;
    orr_page_ink(page, tight ? INK_WARN : INK_GOOD);
    orr_page_add(page, "  %s", tight ? "TIGHT" : "FITS");
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   P(OOM) %.0f %%", 100 * real(best, "verdict.p_oom"));
    add_run(page, best);
    static const double doubtful = 0.2;
    if (real(best, "verdict.p_oom") > doubtful) {
        orr_page_add(page, "   (--p-oom 0.1 or --margin 0.1 ask for a safer one)");
    }
    orr_page_add(page, "\n");
}

static void add_fronts(orr_page *page, const orr_tree *result) {
    const orr_tree *front = orr_tree_get(result, "fronts"), *points = orr_tree_get(front, "points");
    const orr_tree *names = orr_tree_get(front, "objectives");
    if (orr_tree_size(names) == 0) {
        return;
    }
    orr_text title = orr_text_new(page->arena, 200);
    orr_text_format(&title, "Nothing is better in all of:");
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        orr_text_format(&title, " %s", orr_tree_text(orr_tree_at(names, i), ""));
    }
    orr_page_heading(page, orr_text_done(&title));
    for (size_t i = 0; i < orr_tree_size(points); i++) {
        const orr_tree *one = orr_tree_at(points, i), *plan = orr_tree_get(one, "plan");
        orr_page_add(page, "  %4lld x %-10s %9s tok/s/GPU  %2.0f %% free",
                     (long long)orr_tree_int(orr_tree_get(plan, "gpus"), 0),
                     orr_tree_text(orr_tree_get(plan, "hardware"), "?"),
                     orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                     100 * real(one, "headroom_frac"));
        add_run(page, one);
        orr_page_add(page, "\n      %s\n", plan_words(page, plan));
    }
    if (!orr_tree_bool(orr_tree_get(front, "complete"), true)) {
        orr_page_add(page, "  (some searches were stopped early)\n");
    }
}

static void add_certificate(orr_page *page, const orr_tree *result) {
    const orr_tree *c = orr_tree_get(result, "certificate");
    bool complete = orr_tree_bool(orr_tree_get(c, "complete"), false);
    bool found = orr_tree_kind_of(orr_tree_get(result, "best")) == ORR_TREE_MAP;
    orr_page_heading(page, "Certificate");
    orr_page_add(page, "  %s legal plans: %s evaluated, %s ruled out by time and %s by memory",
                 count_text(page, c, "space"), count_text(page, c, "evaluated"),
                 count_text(page, c, "pruned_by.time_bound"),
                 count_text(page, c, "pruned_by.memory"));
    orr_page_add(page, ".\n  ");
    orr_page_ink(page, complete ? INK_GOOD : INK_WARN);
    if (complete) {
        orr_page_add(page, "By this model nothing in the space is faster.");
    } else {
        orr_page_add(
            page, "Stopped early: %s plans were not looked at%s", count_text(page, c, "open"),
            real(c, "gap") >= 1 ? ", and no bound says how much faster one could be." : "");
        if (real(c, "gap") < 1) {
            orr_page_add(page, "; none of them can take less than %.1f %% of the best's time.",
                         100 * (1 - real(c, "gap")));
        }
    }
    orr_page_ink(page, INK_PLAIN);
    if (found) {
        orr_page_add(page,
                     " %s plans lie within %.1f %% of the best,\n  which is the model's own error "
                     "in telling plans apart.",
                     count_text(page, c, "within_model_error"), 100 * real(c, "model_error"));
    }
    orr_page_add(page, "\n");
    orr_page_add(page, "  %.2f s, %s evaluations a second\n", real(result, "wall_s"),
                 orr_page_count(page, real(result, "rate_per_s")));
}

static void add_plans(orr_page *page, const orr_tree *list, const char *title, size_t most) {
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_heading(page, title);
    orr_page_add(page, "  tok/s/GPU   allocated  free  plan\n");
    for (size_t i = 0; i < orr_tree_size(list) && i < most; i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "  %9s  %10s  %2.0f %%  %s\n",
                     orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                     orr_page_bytes(page, real(one, "memory.allocated_bytes")),
                     100 * real(one, "headroom_frac"), plan_words(page, orr_tree_get(one, "plan")));
    }
}

/* What to change in the file that is launched today. */
static void add_changes(orr_page *page, const orr_tree *export) {
    const orr_tree *list = orr_tree_get(export, "changes");
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_add(page, "  in %s, for the first of them:\n",
                 orr_tree_text(orr_tree_get(export, "against"), ""));
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        const char *now = orr_tree_text(orr_tree_get(one, "now"), "");
        long long line = (long long)orr_tree_int(orr_tree_get(one, "line"), 0);
        if (line > 0) {
            orr_page_add(page, "    line %lld: %s -> %s\n", line,
                         orr_tree_text(orr_tree_get(one, "before"), ""),
                         now[0] != '\0' ? now : "(take it out)");
        } else {
            orr_page_add(page, "    add: %s\n", now);
        }
    }
}

static void add_finalists(orr_page *page, const orr_tree *result) {
    const orr_tree *list = orr_tree_get(result, "finalists");
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_heading(page, "Measure these");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i), *lost = orr_tree_path(one, "export.lost");
        orr_page_add(page, "  %2.0f %% the fastest  %9s  %s\n", 100 * real(one, "p_best"),
                     orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                     plan_words(page, orr_tree_get(one, "plan")));
        if (orr_tree_get(one, "measured_tokens_per_s_per_gpu") != NULL) {
            orr_page_add(page, "      measured: %s\n",
                         orr_page_count(page, real(one, "measured_tokens_per_s_per_gpu")));
        }
        orr_page_ink(page, INK_DIM);
        for (size_t k = 0; k < orr_tree_size(lost); k++) {
            const char *key = orr_tree_text(orr_tree_get(orr_tree_at(lost, k), "key"), "");
            const char *format = orr_tree_text(orr_tree_path(one, "export.format"), "");
            orr_page_add(page, k == 0 ? "      not in the words of %s: " : "%.0s", format);
            orr_page_add(page, "%s%s", k == 0 ? "" : ", ", key);
        }
        orr_page_add(page, "%s", orr_tree_size(lost) > 0 ? "\n" : "");
        orr_page_ink(page, INK_PLAIN);
    }
    add_changes(page, orr_tree_get(orr_tree_at(list, 0), "export"));
    orr_page_add(page,
                 "  one of them is the fastest of all with %.0f %%; --write DIR writes their "
                 "plan files and arguments,\n  --measured FILE takes the results back\n",
                 100 * real(result, "finalists_p_best"));
}

static void add_baseline(orr_page *page, const orr_tree *result) {
    const orr_tree *baseline = orr_tree_get(result, "baseline");
    const orr_tree *levers = orr_tree_get(baseline, "attribution");
    if (orr_tree_kind_of(baseline) != ORR_TREE_MAP) {
        return;
    }
    orr_page_heading(page, "Against the plan to start from");
    orr_page_add(page, "  %s\n", plan_words(page, orr_tree_get(baseline, "plan")));
    if (!orr_tree_bool(orr_tree_get(baseline, "legal"), true)) {
        const orr_tree *rule = orr_tree_at(orr_tree_get(baseline, "rules"), 0);
        orr_page_add(page, "  it is not legal: [%s] %s\n",
                     orr_tree_text(orr_tree_get(rule, "id"), ""),
                     orr_tree_text(orr_tree_get(rule, "message"), ""));
        return;
    }
    double start = real(baseline, "tokens_per_s_per_gpu"), sum = start;
    double best = real(result, "best.tokens_per_s_per_gpu");
    orr_page_add(page, "  %-20s %9s%s\n", "as it is", orr_page_count(page, start),
                 orr_tree_bool(orr_tree_path(baseline, "verdict.fits"), true)
                     ? ""
                     : "   (does not fit into memory)");
    for (size_t i = 0; i < orr_tree_size(levers); i++) {
        const orr_tree *one = orr_tree_at(levers, i);
        double gain = real(one, "tokens_per_s_per_gpu");
        orr_page_add(page, "  %-20s %+9.0f  ", orr_tree_text(orr_tree_get(one, "lever"), ""), gain);
        uint32_t offset = (uint32_t)(40 * (best > 0 ? sum / best : 0));
        for (uint32_t k = 0; k < offset && k < 40; k++) {
            orr_page_add(page, " ");
        }
        orr_page_bar(page, best > 0 ? gain / best : 0, 40 - (offset < 40 ? offset : 40));
        orr_page_add(page, "\n");
        sum += gain;
    }
    if (orr_tree_size(levers) > 0) {
        orr_page_add(page, "  %-20s %9s  %+.1f %%\n", "the best", orr_page_count(page, best),
                     100 * real(baseline, "gain_frac"));
    }
}

static void add_what_if(orr_page *page, const orr_tree *result) {
    const orr_tree *list = orr_tree_get(result, "what_if");
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_heading(page, "One per cent more of ... gives so much throughput");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "  %-20s %+.2f %%  ", orr_tree_text(orr_tree_get(one, "figure"), ""),
                     real(one, "throughput_per_percent"));
        orr_page_bar(page, real(one, "throughput_per_percent"), 30);
        orr_page_add(page, "\n");
    }
}

/* How far one axis after the other leads. */
static void add_seed(orr_page *page, const orr_tree *result) {
    const orr_tree *seed = orr_tree_get(result, "seed"), *path = orr_tree_get(seed, "path");
    if (orr_tree_size(path) == 0) {
        return;
    }
    orr_page_heading(page, "One axis at a time (the seed planner)");
    for (size_t i = 0; i < orr_tree_size(path); i++) {
        const orr_tree *one = orr_tree_at(path, i);
        bool fits = strcmp(orr_tree_text(orr_tree_get(one, "verdict"), ""), "fits") == 0;
        if (orr_tree_bool(orr_tree_get(one, "kept"), false)) {
            orr_page_add(page, "  %4zu  %9s  %s%s\n", i + 1,
                         orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                         orr_tree_text(orr_tree_get(one, "change"), ""),
                         fits ? "" : "   (does not fit yet)");
        }
    }
    double best = real(result, "best.tokens_per_s_per_gpu");
    double reached = real(seed, "tokens_per_s_per_gpu");
    if (best > 0 && reached > 0) {
        orr_page_add(page, "  after %.0f evaluations %.1f %% below the best there is\n",
                     real(seed, "evaluations"), 100 * (1 - reached / best));
    }
}

/* Of each axis the change that costs least. */
static void add_axes(orr_page *page, const orr_tree *list) {
    const char *axis = "";
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *row = orr_tree_at(list, i), *best = NULL;
        const char *key = orr_tree_text(orr_tree_get(row, "key"), "");
        if (strcmp(key, axis) == 0) {
            continue;
        }
        axis = key;
        for (size_t k = i; k < orr_tree_size(list); k++) {
            const orr_tree *one = orr_tree_at(list, k);
            bool same = strcmp(orr_tree_text(orr_tree_get(one, "key"), ""), key) == 0;
            bool fits = strcmp(orr_tree_text(orr_tree_get(one, "verdict"), ""), "fits") == 0;
            if (same && fits &&
                (best == NULL || real(one, "change_frac") > real(best, "change_frac"))) {
                best = one;
            }
        }
        if (best != NULL) {
            orr_page_add(page, "  %-28s %+6.1f %%\n",
                         orr_tree_text(orr_tree_get(best, "change"), ""),
                         100 * real(best, "change_frac"));
        }
    }
}

static void add_shaken(orr_page *page, const orr_tree *list, const char *key) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        bool less = orr_tree_bool(orr_tree_get(one, "stays_with_less"), true);
        bool more = orr_tree_bool(orr_tree_get(one, "stays_with_more"), true);
        orr_page_add(page, "  %-20s %+6.1f %%  %+6.1f %%   %s\n",
                     orr_tree_text(orr_tree_get(one, key), ""), 100 * real(one, "less_frac"),
                     100 * real(one, "more_frac"),
                     less && more ? "stays the best"
                     : less       ? "another is best with more"
                     : more       ? "another is best with less"
                                  : "another is best either way");
    }
}

static void add_robustness(orr_page *page, const orr_tree *result) {
    const orr_tree *r = orr_tree_get(result, "robustness");
    if (orr_tree_size(r) == 0) {
        return;
    }
    orr_page_heading(page, "How sharp the peak is");
    orr_page_add(page,
                 "  %s: of the legal plans one change away %.0f %% fit and lie within the model's "
                 "error.\n  The least costly change of each axis:\n",
                 orr_tree_text(orr_tree_get(r, "shape"), ""), 100 * real(r, "near_frac"));
    add_axes(page, orr_tree_get(r, "axes"));
    orr_page_add(page, "  A figure of the machine 10 %% less, 10 %% more:\n");
    add_shaken(page, orr_tree_get(r, "figures"), "figure");
    if (page->options.verbose) {
        orr_page_add(page, "  A class of work a standard deviation shorter, longer:\n");
        add_shaken(page, orr_tree_get(r, "calibration"), "what");
    }
}

static void add_free_layout(orr_page *page, const orr_tree *result) {
    const orr_tree *one = orr_tree_get(result, "free_layout");
    if (!(real(one, "against_best_frac") > 0)) {
        return;
    }
    orr_page_heading(page, "Layers placed freely, by a layout string");
    orr_page_add(page, "  %9s  %+.1f %% against the best above  %s\n      layout %s\n",
                 orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                 100 * real(one, "against_best_frac"), plan_words(page, orr_tree_get(one, "plan")),
                 orr_tree_text(orr_tree_get(one, "layout"), ""));
}

void orr_render_tune(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    bool found = orr_tree_kind_of(orr_tree_get(result, "best")) == ORR_TREE_MAP;
    bool complete = orr_tree_bool(orr_tree_path(result, "certificate.complete"), true);
    if (found) {
        add_best(page, result);
    } else if (orr_tree_bool(orr_tree_get(result, "nothing_looked_at"), false)) {
        orr_page_ink(page, INK_WARN);
        orr_page_add(page, "Ended before any plan was looked at: there is no best so far.\n");
        orr_page_ink(page, INK_PLAIN);
    } else {
        orr_page_ink(page, INK_BAD);
        orr_page_add(page, "%s.",
                     complete ? "No plan of the space fits into memory"
                              : "None of the plans looked at fits into memory");
        double least = real(result, "least_need_bytes");
        if (least > 0) {
            orr_page_add(page, " The least that was asked for is %s.", orr_page_bytes(page, least));
        }
        orr_page_add(page, "\n");
        orr_page_ink(page, INK_PLAIN);
    }
    add_certificate(page, result);
    add_plans(page, orr_tree_get(result, "top"), "The best, each of another kind",
              page->options.verbose ? 100 : 6);
    add_plans(page, orr_tree_get(result, "pareto"), "Speed against free memory",
              page->options.verbose ? 100 : 6);
    add_free_layout(page, result);
    add_fronts(page, result);
    add_baseline(page, result);
    add_finalists(page, result);
    add_what_if(page, result);
    orr_render_investigation(page, result);
    if (page->options.verbose) {
        add_seed(page, result);
    }
    add_robustness(page, result);
    orr_render_assumptions(page, envelope);
}
