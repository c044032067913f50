/* What measurements a projection used, shape by shape. */
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static const char *text(const orr_tree *node, const char *path) {
    return orr_tree_text(orr_tree_path(node, path), "");
}

static void add_op(orr_page *page, const orr_tree *op) {
    orr_page_add(page, "  ");
    orr_page_cell(page, text(op, "how"), 8);
    orr_page_cell(page, orr_page_seconds(page, real(op, "time_us") * 1e-6), 9);
    orr_page_cell(page, orr_page_seconds(page, real(op, "model_us") * 1e-6), 9);
    if (orr_tree_get(op, "ratio") != NULL) {
        orr_page_add(page, " %5.2f ", real(op, "ratio"));
    } else {
        orr_page_add(page, "     - ");
    }
    orr_page_cell(page, text(op, "name"), 22);
    orr_page_add(page, "%s\n", text(op, "shape"));
}

void orr_render_evidence(orr_page *page, const orr_tree *evidence) {
    if (evidence == NULL) {
        return;
    }
    const orr_tree *files = orr_tree_get(evidence, "files");
    const orr_tree *ops = orr_tree_get(evidence, "ops");
    orr_page_heading(page, "Evidence");
    for (size_t i = 0; i < orr_tree_size(files); i++) {
        const orr_tree *file = orr_tree_at(files, i);
        orr_page_add(page, "  %s: %.0f records of %s%s%s\n", text(file, "path"),
                     real(file, "records"), text(file, "device"),
                     text(file, "software")[0] != '\0' ? " under " : "", text(file, "software"));
    }
    orr_page_add(page,
                 "  of %zu shapes %.0f are measured, %.0f lie between measured ones, %.0f near "
                 "some, %.0f far from all; %.0f are the model's\n",
                 orr_tree_size(ops), real(evidence, "shapes.exact"),
                 real(evidence, "shapes.between"), real(evidence, "shapes.near"),
                 real(evidence, "shapes.far"), real(evidence, "shapes.model"));
    if (!page->options.verbose) {
        orr_page_add(page, "  (-v lists them)\n");
        return;
    }
    orr_page_add(page, "  how      time     model     ratio op                    shape\n");
    for (size_t i = 0; i < orr_tree_size(ops); i++) {
        add_op(page, orr_tree_at(ops, i));
    }
}

/* ---- measuring ------------------------------------------------------------------------------ */

static void add_split(orr_page *page, const char *title, const orr_tree *split) {
    static const char *const keys[] = {"tp", "cp", "ep", "etp", "pp", "dp", "mbs", "seq"};
    orr_page_add(page, "  ");
    orr_page_cell(page, title, 10);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_page_add(page, " %s %.0f", keys[i], real(split, keys[i]));
    }
    orr_page_add(page, "%s\n", orr_tree_bool(orr_tree_get(split, "sp"), false) ? " sp" : "");
}

static void add_scope(orr_page *page, const orr_tree *scope) {
    const orr_tree *layers = orr_tree_get(scope, "layers");
    const orr_tree *restored = orr_tree_get(scope, "restored");
    orr_page_heading(page,
                     orr_arena_format(page->arena, "What of the target runs on %.0f device%s",
                                      real(scope, "gpus"), real(scope, "gpus") > 1 ? "s" : ""));
    add_split(page, "target", orr_tree_get(scope, "target"));
    add_split(page, "measured", orr_tree_get(scope, "reduced"));
    for (size_t i = 0; i < orr_tree_size(layers); i++) {
        const orr_tree *layer = orr_tree_at(layers, i);
        orr_page_add(page, "  one layer of width %.0f, %.0f heads, ", real(layer, "hidden"),
                     real(layer, "heads"));
        if (orr_tree_get(layer, "experts") != NULL) {
            orr_page_add(page, "%.0f experts of %.0f, top %.0f", real(layer, "experts"),
                         real(layer, "expert_ffn"), real(layer, "topk"));
        } else {
            orr_page_add(page, "ffn %.0f", real(layer, "ffn"));
        }
        orr_page_add(page, ", for %.0f\n", real(layer, "stands_for"));
    }
    if (orr_tree_size(restored) > 0) {
        orr_page_heading(page, "What is restored, and how");
    }
    for (size_t i = 0; i < orr_tree_size(restored); i++) {
        orr_page_add(page, "  ");
        orr_page_cell(page, text(orr_tree_at(restored, i), "what"), 22);
        orr_page_add(page, "%s\n", text(orr_tree_at(restored, i), "how"));
    }
}

static void add_checks(orr_page *page, const orr_tree *checks) {
    if (checks == NULL) {
        return;
    }
    orr_page_heading(page, "Results of one rank against those of all, largest relative difference");
    for (size_t i = 0; i < orr_tree_size(checks); i++) {
        orr_page_add(page, "  ");
        orr_page_cell(page, orr_tree_key(checks, i), 10);
        orr_page_add(page, "%.1e\n", orr_tree_real(orr_tree_at(checks, i), 0));
    }
}

static void add_missing(orr_page *page, const orr_tree *missing) {
    enum { SHOWN = 12 };
    if (orr_tree_size(missing) == 0) {
        return;
    }
    orr_page_heading(page, "Not measured");
    for (size_t i = 0; i < orr_tree_size(missing); i++) {
        if (i == SHOWN && !page->options.verbose) {
            orr_page_add(page, "  and %zu more (-v)\n", orr_tree_size(missing) - i);
            return;
        }
        const orr_tree *gap = orr_tree_at(missing, i);
        orr_page_add(page, "  %s: %s\n", text(gap, "what"), text(gap, "why"));
    }
}

void orr_render_measure(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    add_scope(page, orr_tree_get(result, "scope"));
    if (orr_tree_get(result, "work") != NULL) {
        orr_page_add(page,
                     "\nNothing was run: %.0f kernels and %.0f collectives would be (--json lists "
                     "them, for probes/probe.py)\n",
                     real(result, "kernels"), real(result, "collectives"));
        return;
    }
    orr_page_heading(page, "Measured");
    orr_page_add(page, "  %.0f records on %s, %s\n", real(result, "records"),
                 text(result, "device"), text(result, "software"));
    if (orr_tree_get(result, "step_time_s") != NULL) {
        orr_page_add(page, "  a whole step: %s\n",
                     orr_page_seconds(page, real(result, "step_time_s")));
    }
    orr_page_add(page, "  the harness itself: %.4f %% of it\n", 100 * real(result, "harness_frac"));
    if (orr_tree_get(result, "written") != NULL) {
        orr_page_add(page, "  written: %s\n", text(result, "written"));
    }
    add_checks(page, orr_tree_get(result, "checks"));
    add_missing(page, orr_tree_get(result, "missing"));
}
