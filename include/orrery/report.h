/* Rendering of result trees. A renderer sees the tree only, so a saved result re-renders. */
#ifndef ORRERY_REPORT_H
#define ORRERY_REPORT_H

#include "orrery/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orr_report_options {
    uint32_t width; /* terminal columns; 0 means 100 */
    bool color;     /* ANSI colours; never the sole carrier of meaning */
    bool ascii;     /* no characters outside ASCII */
    bool verbose;   /* every table in full */
} orr_report_options;

/* Renders an envelope (see orr_call) for people. The text lives in arena, ends with a newline. */
ORR_API char *orr_report_text(orr_arena *arena, const orr_tree *envelope,
                              const orr_report_options *options);

/* The errors of a validation's rows as an SVG heat map: models down, device and precision across,
 * the median signed error of each cell in per cent. */
ORR_API char *orr_report_heatmap(orr_arena *arena, const orr_tree *envelope);

/* The ops of a schedule as an SVG chart, ranks down, time across; a map with `timeline` and `unit`
 * as in the result of the command. */
ORR_API char *orr_report_gantt(orr_arena *arena, const orr_tree *result);

/* Where the peak goes (result.waterfall of project) as an SVG chart. */
ORR_API char *orr_report_waterfall(orr_arena *arena, const orr_tree *result);

/* The result of a search (tune) as SVG: speed against memory of the front, and how far the seed
 * planner came. */
ORR_API char *orr_report_front(orr_arena *arena, const orr_tree *result);

/* The result of a search that a language model questioned (tune --llm) as SVG: best so far by trial
 * of the model, random plans and hill-climbing under one budget, beside the certified best. */
ORR_API char *orr_report_best_so_far(orr_arena *arena, const orr_tree *result);

#ifdef __cplusplus
}
#endif
#endif
