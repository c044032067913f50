/* A measured run beside its projection. */
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *map, const char *key) {
    return orr_tree_real(orr_tree_get(map, key), 0);
}

static const char *text(const orr_tree *map, const char *key) {
    return orr_tree_text(orr_tree_get(map, key), "");
}

static const char *amount(orr_page *page, const char *unit, double value) {
    return strcmp(unit, "s") == 0       ? orr_page_seconds(page, value)
           : strcmp(unit, "bytes") == 0 ? orr_page_bytes(page, value)
                                        : orr_page_count(page, value);
}

void orr_render_against(orr_page *page, const orr_tree *against) {
    if (against == NULL) {
        return;
    }
    const orr_tree *rows = orr_tree_get(against, "rows");
    const orr_tree *findings = orr_tree_get(against, "findings");
    orr_page_heading(page, orr_arena_format(page->arena, "Your run (%s) against the projection",
                                            text(against, "format")));
    if (orr_tree_size(rows) > 0) {
        orr_page_add(page, "  %-40s %12s %12s %9s\n", "", "measured", "projected", "");
    }
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        const char *unit = text(row, "unit");
        orr_page_add(page, "  ");
        orr_page_cell(page, text(row, "what"), 40);
        orr_page_add(page, " %12s %12s", amount(page, unit, real(row, "measured")),
                     amount(page, unit, real(row, "projected")));
        if (real(row, "ratio") > 0) {
            orr_page_add(page, " %+7.1f %%", 100 * (real(row, "ratio") - 1));
        }
        orr_page_add(page, "\n");
    }
    for (size_t i = 0; i < orr_tree_size(findings); i++) {
        orr_page_add(page, "  %s %s\n", page->options.ascii ? "*" : "•",
                     text(orr_tree_at(findings, i), "message"));
    }
    if (orr_tree_size(findings) == 0) {
        orr_page_add(page, "  nothing stands out\n");
    }
}
