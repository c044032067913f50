/* A whole training run: days, what they are lost to, energy, money. */
#include <stdio.h>
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *map, const char *key) {
    return orr_tree_real(orr_tree_get(map, key), 0);
}

/* Four digits, all of those before the point, thousands apart: "18.14", "2,090", "12,345". */
static const char *figure(orr_page *page, double value) {
    if (value >= 999.95 && value < 1e15) {
        char digits[32];
        int n = snprintf(digits, sizeof digits, "%.0f", value), used = 0;
        char *out = orr_arena_alloc(page->arena, (size_t)(n + n / 3 + 1));
        for (int i = 0; i < n; i++) {
            if (i > 0 && (n - i) % 3 == 0) {
                out[used++] = ',';
            }
            out[used++] = digits[i];
        }
        out[used] = '\0';
        return out;
    }
    return orr_arena_format(page->arena, "%.4g", value);
}

/* "3.1 h", "12 days": a span longer than a step. */
static const char *span(orr_page *page, double value_s) {
    static const struct {
        double over_s, unit_s;
        const char *word;
    } units[] = {{2 * 86400.0, 86400, "days"}, {2 * 3600.0, 3600, "h"}, {120, 60, "min"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (value_s >= units[i].over_s) {
            return orr_arena_format(page->arena, "%s %s", figure(page, value_s / units[i].unit_s),
                                    units[i].word);
        }
    }
    return orr_page_seconds(page, value_s);
}

static const char *scaled_by(orr_page *page, double value, int digits, const char *prefix) {
    size_t i = 0;
    for (; value >= 1000 && prefix[i] != '\0'; i++) {
        value /= 1000;
    }
    return orr_arena_format(page->arena, "%.*g%s%.*s", digits, value, i > 0 ? " " : "",
                            (int)(i > 0), i > 0 ? &prefix[i - 1] : "");
}

static const char *scaled(orr_page *page, double value, int digits) {
    return scaled_by(page, value, digits, "kMGT");
}

static const char *amount(orr_page *page, double value) {
    return scaled(page, value, 3);
}

static void add_bill(orr_page *page, const orr_tree *training) {
    double kwh = real(training, "energy_kwh");
    if (kwh > 0) {
        orr_page_add(page, "  energy %sWh at %sW", amount(page, 1000 * kwh),
                     amount(page, real(training, "power_w")));
        if (real(training, "carbon_kg") > 0) {
            orr_page_add(page, "   %s kg of CO2", amount(page, real(training, "carbon_kg")));
        }
        orr_page_add(page, "\n");
    }
    if (orr_tree_get(training, "cost") != NULL) {
        const char *currency = orr_tree_text(orr_tree_get(training, "currency"), "");
        const orr_tree *interval = orr_tree_get(training, "cost_interval_90");
        orr_page_add(page, "  cost %s%s%s   90 %%: %s to %s   %.3g a million tokens\n",
                     scaled(page, real(training, "cost"), 4), currency[0] != '\0' ? " " : "",
                     currency, scaled(page, orr_tree_real(orr_tree_at(interval, 0), 0), 4),
                     scaled(page, orr_tree_real(orr_tree_at(interval, 1), 0), 4),
                     real(training, "cost_per_million_tokens"));
    }
}

static void add_figures(orr_page *page, const orr_tree *figures) {
    for (size_t i = 0; i < orr_tree_size(figures); i++) {
        const orr_tree *one = orr_tree_at(figures, i);
        bool stated = orr_tree_bool(orr_tree_get(one, "stated"), false);
        if (stated && !page->options.verbose) {
            continue;
        }
        orr_page_add(page, "  ");
        const char *name = orr_tree_text(orr_tree_get(one, "name"), "");
        bool seconds = strlen(name) > 2 && strcmp(name + strlen(name) - 2, "_s") == 0;
        double value = real(one, "value");
        orr_page_cell(page, name, 20);
        orr_page_cell(page,
                      seconds ? span(page, value) : orr_arena_format(page->arena, "%g", value), 12);
        orr_page_add(page, "%s\n", orr_tree_text(orr_tree_get(one, "source"), ""));
    }
}

void orr_render_training(orr_page *page, const orr_tree *training) {
    if (training == NULL) {
        return;
    }
    orr_page_heading(page, orr_arena_format(page->arena, "Training on %s tokens",
                                            scaled_by(page, real(training, "tokens"), 3, "kMBT")));
    if (!orr_tree_bool(orr_tree_get(training, "finishes"), false)) {
        orr_page_add(page, "  does not finish: one failure every %s in the mean\n",
                     span(page, real(training, "mtbf_s")));
        add_figures(page, orr_tree_get(training, "figures"));
        return;
    }
    const orr_tree *interval = orr_tree_get(training, "interval_90_s");
    const orr_tree *lost = orr_tree_get(training, "lost");
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "  %s", span(page, real(training, "time_s")));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   90 %%: %s to %s   goodput %.1f %%",
                 span(page, orr_tree_real(orr_tree_at(interval, 0), 0)),
                 span(page, orr_tree_real(orr_tree_at(interval, 1), 0)),
                 100 * real(training, "goodput"));
    if (real(training, "mtbf_s") > 0) {
        orr_page_add(page, "   %.3g failures, one every %s", real(training, "failures"),
                     span(page, real(training, "mtbf_s")));
    }
    orr_page_add(page, "\n  lost: %s to checkpoints, %s to work done again, %s to restarts\n",
                 span(page, real(lost, "checkpoints_s")), span(page, real(lost, "rework_s")),
                 span(page, real(lost, "restarts_s")));
    if (real(training, "checkpoint_every_s") > 0) {
        orr_page_add(page, "  a checkpoint of %s every %s halts training for %s\n",
                     orr_page_bytes(page, real(training, "checkpoint_bytes")),
                     span(page, real(training, "checkpoint_every_s")),
                     span(page, real(training, "checkpoint_s")));
    }
    double twice_s = real(training, "time_with_twice_the_failures_s");
    if (twice_s > 0 && real(training, "mtbf_s") > 0) {
        orr_page_add(page, "  with twice the failures: %s (+%.2g %%)\n", span(page, twice_s),
                     100 * (twice_s / real(training, "time_s") - 1));
    }
    add_bill(page, training);
    orr_page_add(page, "  figures that nobody stated, and their source\n");
    add_figures(page, orr_tree_get(training, "figures"));
}
