/* Shared by the renderers of this module. */
#ifndef ORR_REPORT_INT_H
#define ORR_REPORT_INT_H

#include "base/text.h"
#include "orrery/report.h"

typedef struct orr_page {
    orr_text text;
    orr_arena *arena;
    orr_report_options options;
} orr_page;

typedef enum orr_ink { INK_PLAIN = 0, INK_GOOD, INK_WARN, INK_BAD, INK_DIM, INK_STRONG } orr_ink;

void orr_page_ink(orr_page *page, orr_ink ink); /* INK_PLAIN ends a colour */
void orr_page_add(orr_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
void orr_page_heading(orr_page *page, const char *title);
/* A bar of `cells` columns, `share` of them filled (0..1), in eighths where the terminal can. */
void orr_page_bar(orr_page *page, double share, uint32_t cells);
/* `count` times one symbol: `wide` where the terminal can, else the letter. */
void orr_page_repeat(orr_page *page, const char *wide, char letter, uint32_t count);
/* Text cut to `columns`, the rest filled with blanks. */
void orr_page_cell(orr_page *page, const char *text, uint32_t columns);

/* Short forms for people: "12.8 s", "340 ms", "62.6 GiB", "10.2k". */
const char *orr_page_seconds(orr_page *page, double value_s);
const char *orr_page_bytes(orr_page *page, double bytes);
const char *orr_page_count(orr_page *page, double value);

void orr_render_measure(orr_page *page, const orr_tree *envelope);
void orr_render_evidence(orr_page *page, const orr_tree *evidence);   /* NULL: nothing */
void orr_render_waterfall(orr_page *page, const orr_tree *waterfall); /* NULL: nothing */
void orr_render_against(orr_page *page, const orr_tree *against);     /* NULL: nothing */
void orr_render_explain(orr_page *page, const orr_tree *envelope);
void orr_render_training(orr_page *page, const orr_tree *training); /* NULL: nothing */
void orr_render_cost(orr_page *page, const orr_tree *envelope);
void orr_render_project(orr_page *page, const orr_tree *envelope);
void orr_render_schedule(orr_page *page, const orr_tree *envelope);
void orr_render_memory(orr_page *page, const orr_tree *envelope);
void orr_render_validate(orr_page *page, const orr_tree *envelope);
void orr_render_tune(orr_page *page, const orr_tree *envelope);
void orr_render_doctor(orr_page *page, const orr_tree *envelope);
void orr_render_investigation(orr_page *page, const orr_tree *result); /* nothing without one */
void orr_render_evaluate(orr_page *page, const orr_tree *envelope);
void orr_render_neighbors(orr_page *page, const orr_tree *envelope);
void orr_render_compare(orr_page *page, const orr_tree *envelope);
void orr_render_sensitivity(orr_page *page, const orr_tree *envelope);
void orr_render_next(orr_page *page, const orr_tree *envelope);
/* memory NULL: the verdict and the rules alone. */
void orr_render_verdict(orr_page *page, const orr_tree *verdict, const orr_tree *memory);
void orr_render_assumptions(orr_page *page, const orr_tree *envelope);
void orr_render_import(orr_page *page, const orr_tree *envelope);
void orr_render_export(orr_page *page, const orr_tree *envelope);
void orr_render_rules(orr_page *page, const orr_tree *envelope);
void orr_render_list(orr_page *page, const orr_tree *envelope);
void orr_render_tree(orr_page *page, const orr_tree *node, uint32_t indent);

#endif
