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
                 "  of %zu shapes %.0f are measured, %.0f lie between measured ones, %.0f are the "
                 "model's\n",
                 orr_tree_size(ops), real(evidence, "shapes.exact"),
                 real(evidence, "shapes.between"), real(evidence, "shapes.model"));
    if (!page->options.verbose) {
        orr_page_add(page, "  (-v lists them)\n");
        return;
    }
    orr_page_add(page, "  how      time     model     ratio op                    shape\n");
    for (size_t i = 0; i < orr_tree_size(ops); i++) {
        add_op(page, orr_tree_at(ops, i));
    }
}
