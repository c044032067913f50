/* A search as SVG: speed against memory of the front, with the best and the finalists; and how far
 * the seed planner came with each evaluation. */
#include <string.h>

#include "report/report_int.h"

enum { WIDE = 460, HIGH = 300, LEFT = 70, TOP = 40, GAP = 90, SVG_LIMIT_BYTES = 4 << 20 };

typedef struct frame {
    double x0, x1, y0, y1; /* values at the borders */
    double left;
} frame;

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static double at_x(const frame *f, double value) {
    return f->left + (f->x1 > f->x0 ? (value - f->x0) / (f->x1 - f->x0) : 0.5) * WIDE;
}

static double at_y(const frame *f, double value) {
    return TOP + HIGH - (f->y1 > f->y0 ? (value - f->y0) / (f->y1 - f->y0) : 0.5) * HIGH;
}

static void widen(double *low, double *high, double value) {
    *low = value < *low ? value : *low;
    *high = value > *high ? value : *high;
}

/* The title says what the ordinate is. */
static void draw_frame(orr_text *svg, const frame *f, const char *title, const char *x) {
    orr_text_format(svg,
                    "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"#888\"/>\n<text x=\"%.1f\" y=\"%d\" font-weight=\"bold\">%s</text>\n",
                    f->left, TOP, WIDE, HIGH, f->left, TOP - 14, title);
    for (int i = 0; i <= 4; i++) {
        double share = i / 4.0;
        double vx = f->x0 + share * (f->x1 - f->x0), vy = f->y0 + share * (f->y1 - f->y0);
        orr_text_format(svg,
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n"
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                        at_x(f, vx), TOP + HIGH + 18, vx, f->left - 6, at_y(f, vy) + 4, vy);
    }
    orr_text_format(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    f->left + WIDE / 2.0, TOP + HIGH + 36, x);
}

static void draw_front(orr_text *svg, const orr_tree *result) {
    static const double GIB = 1024.0 * 1024.0 * 1024.0;
    const orr_tree *lists[] = {orr_tree_get(result, "pareto"), orr_tree_get(result, "finalists")};
    static const char *const colors[] = {"#3b6ea8", "#c8502d"};
    frame f = {1e300, 0, 0, 0, LEFT};
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < orr_tree_size(lists[l]); i++) {
            const orr_tree *one = orr_tree_at(lists[l], i);
            widen(&f.x0, &f.x1, real(one, "tokens_per_s_per_gpu"));
            widen(&f.y0, &f.y1, real(one, "memory.allocated_bytes") / GIB);
        }
    }
    f.x0 = f.x0 > f.x1 ? 0 : f.x0;
    draw_frame(svg, &f, "GiB allocated, by speed", "tokens/s/GPU");
    for (int l = 0; l < 2; l++) {
        for (size_t i = 0; i < orr_tree_size(lists[l]); i++) {
            const orr_tree *one = orr_tree_at(lists[l], i);
            orr_text_format(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n",
                            at_x(&f, real(one, "tokens_per_s_per_gpu")),
                            at_y(&f, real(one, "memory.allocated_bytes") / GIB), 4 - l, colors[l]);
        }
    }
    orr_text_format(svg,
                    "<text x=\"%d\" y=\"%d\" fill=\"%s\">front</text>"
                    "<text x=\"%d\" y=\"%d\" fill=\"%s\">finalists</text>\n",
                    LEFT + 10, TOP + 20, colors[0], LEFT + 60, TOP + 20, colors[1]);
}

static void draw_seed(orr_text *svg, const orr_tree *result) {
    const orr_tree *path = orr_tree_path(result, "seed.path");
    double best = real(result, "best.tokens_per_s_per_gpu"), so_far = 0;
    frame f = {0, (double)orr_tree_size(path), 0, best, LEFT + WIDE + GAP};
    draw_frame(svg, &f, "tokens/s/GPU: the seed planner's best so far", "evaluations");
    orr_text_add(svg, "<polyline fill=\"none\" stroke=\"#3b6ea8\" stroke-width=\"2\" points=\"");
    for (size_t i = 0; i < orr_tree_size(path); i++) {
        const orr_tree *one = orr_tree_at(path, i);
        bool fits = strcmp(orr_tree_text(orr_tree_get(one, "verdict"), ""), "fits") == 0;
        double speed = fits ? real(one, "tokens_per_s_per_gpu") : 0;
        so_far = speed > so_far ? speed : so_far;
        orr_text_format(svg, "%.1f,%.1f ", at_x(&f, (double)i + 1), at_y(&f, so_far));
    }
    orr_text_format(svg,
                    "\"/>\n<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                    "stroke=\"#c8502d\" stroke-dasharray=\"4 3\"/>\n",
                    f.left, at_y(&f, best), f.left + WIDE, at_y(&f, best));
    orr_text_format(svg, "<text x=\"%.1f\" y=\"%.1f\" fill=\"#c8502d\">the certified best</text>\n",
                    f.left + 10, at_y(&f, best) + 16);
}

char *orr_report_front(orr_arena *arena, const orr_tree *result) {
    orr_text svg = orr_text_new(arena, SVG_LIMIT_BYTES);
    orr_text_format(&svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    2 * LEFT + 2 * WIDE + GAP, TOP + HIGH + 56);
    draw_front(&svg, result);
    draw_seed(&svg, result);
    orr_text_add(&svg, "</svg>\n");
    return orr_text_done(&svg);
}
