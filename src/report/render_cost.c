/* The price of one op, for people; or a table with its predictions, as it stands. */
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static const char *text(const orr_tree *node, const char *path) {
    return orr_tree_text(orr_tree_path(node, path), "");
}

static void add_time(orr_page *page, const char *name, const orr_tree *cost) {
    const orr_tree *interval = orr_tree_get(cost, "interval_90");
    orr_page_add(page, "  %-14s %s ± %.0f %%   90 %%: %s to %s", name,
                 orr_page_seconds(page, real(cost, "time_s")), 100 * real(cost, "relerr"),
                 orr_page_seconds(page, orr_tree_real(orr_tree_at(interval, 0), 0)),
                 orr_page_seconds(page, orr_tree_real(orr_tree_at(interval, 1), 0)));
}

/* Both times, each with what it is of; the second only where it is priced apart. */
static void add_states(orr_page *page, const orr_tree *result) {
    const orr_tree *benchmark = orr_tree_get(result, "benchmark");
    add_time(page, "in training", result);
    orr_page_add(page, "   (%s)\n  %-14s %s\n", text(result, "provenance"), "",
                 text(result, "states.training"));
    if (benchmark == NULL) {
        orr_page_add(page, "  %-14s %s\n", "in a benchmark", text(result, "states.benchmark"));
        return;
    }
    add_time(page, "in a benchmark", benchmark);
    orr_page_add(page, "\n  %-14s %s\n", "", text(result, "states.benchmark"));
}

/* Three digits, whole numbers from a hundred on. */
static const char *digits(orr_page *page, double value) {
    return orr_arena_format(page->arena, value >= 99.95 ? "%.0f" : "%.3g", value);
}

static void add_rates(orr_page *page, const orr_tree *result) {
    if (real(result, "flops_per_s") > 0) {
        orr_page_add(page, "  %-14s %s TFLOP/s, %s %% of the roof\n", "rate",
                     digits(page, real(result, "flops_per_s") / 1e12),
                     digits(page, 100 * real(result, "roof.frac")));
    } else {
        double Bps = real(result, "bytes_per_s") + real(result, "bus_bytes_per_s");
        orr_page_add(page, "  %-14s %s GB/s%s, %s %% of the roof\n", "rate",
                     digits(page, Bps / 1e9),
                     real(result, "bus_bytes_per_s") > 0 ? " on the bus" : "",
                     digits(page, 100 * real(result, "roof.frac")));
    }
}

static void add_roof(orr_page *page, const orr_tree *result) {
    static const char *const keys[] = {"compute_s", "memory_s", "wire_s"};
    static const char *const names[] = {"arithmetic", "memory", "links"};
    orr_page_add(page, "  %-14s", "roof");
    for (int i = 0; i < 3; i++) {
        double time = orr_tree_real(orr_tree_get(orr_tree_get(result, "roof"), keys[i]), 0);
        if (time > 0) {
            orr_page_add(page, " %s %s;", names[i], orr_page_seconds(page, time));
        }
    }
    orr_page_add(page, " bound by %s%s%s\n", text(result, "roof.bound"),
                 text(result, "roof.of")[0] != '\0' ? ": " : "", text(result, "roof.of"));
}

static void add_cut(orr_page *page, const orr_tree *result) {
    const orr_tree *cut = orr_tree_get(result, "cut");
    if (cut == NULL) {
        return;
    }
    orr_page_add(page, "  %-14s ", "cut");
    if (real(cut, "tile_m") > 0) {
        orr_page_add(page, "tiles of %.0fx%.0f, K in %.0f: ", real(cut, "tile_m"),
                     real(cut, "tile_n"), real(cut, "split_k"));
    }
    orr_page_add(page, "%.0f tiles, %.1f waves on %.0f units\n", real(cut, "tiles"),
                 real(cut, "waves"), real(cut, "units"));
}

/* "ramps 14.4 us, output 27.9 us" */
static void add_parts(orr_page *page, const char *title, const orr_tree *parts) {
    if (orr_tree_size(parts) == 0) {
        return;
    }
    orr_page_add(page, "  %-14s", title);
    for (size_t i = 0; i < orr_tree_size(parts); i++) {
        const char *key = orr_tree_key(parts, i);
        size_t length = strlen(key) - 2; /* without _s */
        orr_page_add(page, "%s ", i > 0 ? "," : "");
        for (size_t c = 0; c < length; c++) {
            orr_text_addn(&page->text, key[c] == '_' ? " " : &key[c], 1);
        }
        orr_page_add(page, " %s", orr_page_seconds(page, orr_tree_real(orr_tree_at(parts, i), 0)));
    }
    orr_page_add(page, "\n");
}

/* "then  x 1.21 training runs, x 0.98 measured nearby" */
static void add_factors(orr_page *page, const orr_tree *result) {
    const orr_tree *factors = orr_tree_get(result, "factors");
    for (size_t i = 0; i < orr_tree_size(factors); i++) {
        const char *key = orr_tree_key(factors, i);
        orr_page_add(page, i == 0 ? "  %-14s x %.3f " : "%s x %.3f ", i == 0 ? "then" : ",",
                     orr_tree_real(orr_tree_at(factors, i), 1));
        for (; *key != '\0'; key++) {
            orr_text_addn(&page->text, *key == '_' ? " " : key, 1);
        }
    }
    if (real(result, "launches_s") > 0) {
        orr_page_add(page, "; %s at least, to launch the groups",
                     orr_page_seconds(page, real(result, "launches_s")));
    }
    if (orr_tree_size(factors) > 0) {
        orr_page_add(page, "\n");
    }
}

/* What the library had to choose from: "ring 873 us, PAT 349 us". */
static void add_algorithms(orr_page *page, const orr_tree *list) {
    for (size_t i = 0; orr_tree_size(list) > 1 && i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, i == 0 ? "  %-14s %s %s" : "%s %s %s", i == 0 ? "algorithms" : ",",
                     text(one, "name"), orr_page_seconds(page, real(one, "time_s")));
    }
    orr_page_add(page, orr_tree_size(list) > 1 ? "\n" : "");
}

/* What attention gains over 16 bits. */
static void add_low_precision(orr_page *page, const orr_tree *low) {
    if (low != NULL) {
        orr_page_add(
            page,
            "  %-14s %.2f times as fast as in 16 bits: %s in %s and bf16 on %s, %.0f rows, "
            "± %.0f %%\n",
            "low precision", real(low, "gain"), text(low, "kernel"), text(low, "scheme"),
            text(low, "device"), real(low, "rows"), 100 * real(low, "error"));
    }
}

static void add_fit(orr_page *page, const orr_tree *result) {
    const orr_tree *fit = orr_tree_get(result, "fit");
    const char *device = text(fit, "device"), *kin = text(fit, "kin");
    orr_page_add(page, "  %-14s ", "model");
    if (orr_tree_get(fit, "rows") != NULL && !(real(fit, "rows") > 0)) {
        orr_page_add(page, "stand-in for %s, which has no rows of its own: %s\n", device,
                     text(fit, "source"));
    } else if (orr_tree_get(fit, "rows") != NULL) {
        orr_page_add(page,
                     "fit of %s (%s), %.0f rows of %s; off by %.1f %% at training sizes "
                     "of shapes left out\n",
                     device, kin, real(fit, "rows"), text(fit, "source"),
                     100 * real(fit, "mape_training"));
    } else if (device[0] != '\0') {
        orr_page_add(page, "%s of %s (%s), %s, by %s\n", text(result, "algorithm"), device, kin,
                     text(fit, "library"), text(fit, "source"));
    } else if (orr_tree_get(fit, "fabric") != NULL) {
        orr_page_add(page, "%s over fabric %s, %.1f GB/s a NIC attained\n",
                     text(result, "algorithm"), text(fit, "fabric"),
                     real(fit, "nic_bytes_per_s") / 1e9);
    } else {
        orr_page_add(page, "architecture %s, efficiency %.2f\n", text(fit, "architecture"),
                     real(fit, "efficiency"));
    }
}

static void add_evidence(orr_page *page, const orr_tree *result) {
    const orr_tree *evidence = orr_tree_get(result, "evidence");
    const char *how = text(evidence, "how");
    orr_page_add(page, "  %-14s ", "evidence");
    if (orr_tree_get(evidence, "model_s") == NULL) {
        orr_page_add(page, "none given\n");
    } else if (strcmp(how, "exact") == 0) {
        orr_page_add(page, "this shape in %s; the model says %s\n", text(evidence, "file"),
                     orr_page_seconds(page, real(evidence, "model_s")));
    } else if (strcmp(how, "model") != 0) {
        double near = real(evidence, "near");
        const char *where = strcmp(how, "between") == 0 ? "between"
                            : strcmp(how, "far") == 0   ? "far from all"
                                                        : "near";
        orr_page_add(page, "%s %s, the nearest %.1f octaves away; the model says %s\n", where,
                     near == 1 ? "one measured shape" : "measured shapes",
                     real(evidence, "octaves"), orr_page_seconds(page, real(evidence, "model_s")));
    } else if (orr_tree_get(result, "sweep") != NULL) {
        const orr_tree *sweep = orr_tree_get(result, "sweep");
        orr_page_add(page, "%lld measured messages: starts x%.2f, bandwidth x%.2f\n",
                     (long long)orr_tree_int(orr_tree_get(sweep, "records"), 0),
                     real(sweep, "start_factor"), real(sweep, "rate_factor"));
    } else {
        orr_page_add(page, "nothing near this shape\n");
    }
}

/* What a host takes, with each kind of graphs, and whose word that is. */
static void add_launch(orr_page *page, const orr_tree *result) {
    const orr_tree *from = orr_tree_get(result, "from");
    orr_page_add(page, "%s\n\n", text(result, "op"));
    orr_page_add(page, "  %-14s %s   (%s)\n", "in training",
                 orr_page_seconds(page, real(result, "time_s")), text(result, "provenance"));
    orr_page_add(page, "  %-14s host %s", "at once",
                 orr_page_seconds(page, real(result, "host_s")));
    if (orr_tree_get(result, "host_per_kernel_s") != NULL) {
        orr_page_add(page, " (%s a kernel), starts on the device %s",
                     orr_page_seconds(page, real(result, "host_per_kernel_s")),
                     orr_page_seconds(page, real(result, "device_s")));
    }
    orr_page_add(page, "\n");
    add_parts(page, "host by graphs", orr_tree_get(result, "host_by_graphs"));
    for (size_t i = 0; i < orr_tree_size(from); i++) {
        const orr_tree *one = orr_tree_at(from, i);
        orr_page_add(page, "  %-14s %s of profile %s: %s%s%s\n", i == 0 ? "model" : "",
                     orr_tree_key(from, i), text(result, "software"), text(one, "evidence"),
                     text(one, "note")[0] != '\0' ? ", " : "", text(one, "note"));
    }
}

void orr_render_cost(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const char *csv = orr_tree_text(orr_tree_get(result, "csv"), NULL);
    if (csv != NULL) {
        orr_text_add(&page->text, csv);
        return;
    }
    if (orr_tree_get(result, "time_s") == NULL) {
        orr_render_tree(page, result, 0);
        return;
    }
    if (orr_tree_get(result, "host_by_graphs") != NULL) {
        add_launch(page, result);
        return;
    }
    orr_page_add(page, "%s on %s\n\n", text(result, "op"), text(result, "hardware"));
    add_states(page, result);
    add_rates(page, result);
    add_roof(page, result);
    add_cut(page, result);
    add_parts(page, "at once", orr_tree_get(result, "at_once"));
    add_parts(page, "besides", orr_tree_get(result, "besides"));
    add_parts(page, "in turn", orr_tree_get(result, "one_after_another"));
    add_factors(page, result);
    add_algorithms(page, orr_tree_get(result, "algorithms"));
    add_low_precision(page, orr_tree_get(result, "low_precision"));
    add_fit(page, result);
    if (orr_tree_get(result, "evidence") != NULL) {
        add_evidence(page, result);
    }
}
