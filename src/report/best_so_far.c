/* Best so far by trial, as SVG: the language model beside what needs none, under one budget, and
 * the certified best of the search. */
#include <string.h>

#include "report/report_int.h"

enum { WIDE = 620, HIGH = 340, LEFT = 78, TOP = 46, RIGHT = 190, FOOT = 92, SVG_BYTES = 4 << 20 };

typedef struct curve {
    const char *key, *title, *color, *dash;
    double last_y; /* of its label */
} curve;

typedef struct frame {
    double trials, low, high;
} frame;

static double at_x(const frame *f, double trial) {
    return LEFT + (f->trials > 1 ? (trial - 1) / (f->trials - 1) : 0.5) * WIDE;
}

/* What is below the frame (nothing fitted yet) lies on its floor. */
static double at_y(const frame *f, double value) {
    double share = f->high > f->low ? (value - f->low) / (f->high - f->low) : 0.5;
    return TOP + HIGH - (share < 0 ? 0 : share) * HIGH;
}

static double number(const orr_tree *list, size_t i) {
    return orr_tree_real(orr_tree_at(list, i), 0);
}

static void widen(frame *f, const orr_tree *list) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        double value = number(list, i);
        f->low = value > 0 && value < f->low ? value : f->low;
        f->high = value > f->high ? value : f->high;
    }
    double count = (double)orr_tree_size(list);
    f->trials = count > f->trials ? count : f->trials;
}

static void draw_frame(orr_text *svg, const frame *f) {
    orr_text_format(svg,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"#888\"/>\n<text x=\"%d\" y=\"24\" font-size=\"15\" "
                    "font-weight=\"bold\">Best so far by trial</text>\n",
                    LEFT, TOP, WIDE, HIGH, LEFT);
    for (int i = 0; i <= 4; i++) {
        double value = f->low + i / 4.0 * (f->high - f->low), y = at_y(f, value);
        double trial = 1 + (double)(int)(i / 4.0 * (f->trials - 1) + 0.5);
        orr_text_format(svg,
                        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e4e4e4\"/>\n"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                        LEFT, y, LEFT + WIDE, y, LEFT - 8, y + 4, value, at_x(f, trial),
                        TOP + HIGH + 18, trial);
    }
    orr_text_format(svg,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">plans tried</text>\n"
                    "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 18 "
                    "%d)\">tokens/s/GPU, projected</text>\n",
                    LEFT + WIDE / 2, TOP + HIGH + 38, TOP + HIGH / 2, TOP + HIGH / 2);
}

/* Steps, as a best does not slide between two trials. */
static void draw_curve(orr_text *svg, const frame *f, const curve *c, const orr_tree *list) {
    size_t count = orr_tree_size(list);
    orr_text_format(svg,
                    "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
                    "stroke-dasharray=\"%s\" points=\"",
                    c->color, c->dash);
    for (size_t i = 0; i < count; i++) {
        double x = at_x(f, (double)i + 1), y = at_y(f, number(list, i));
        if (i > 0) {
            orr_text_format(svg, "%.1f,%.1f ", x, at_y(f, number(list, i - 1)));
        }
        orr_text_format(svg, "%.1f,%.1f ", x, y);
    }
    orr_text_format(svg, "%.1f,%.1f\"/>\n", (double)(LEFT + WIDE),
                    at_y(f, number(list, count - 1)));
}

/* Every plan of the model: filled when it fits; on the floor when it does not. */
static void draw_trials(orr_text *svg, const frame *f, const curve *c, const orr_tree *trials) {
    int n = 0;
    for (size_t i = 0; i < orr_tree_size(trials); i++) {
        const orr_tree *one = orr_tree_at(trials, i);
        bool own = strcmp(orr_tree_text(orr_tree_get(one, "source"), ""), "model") == 0;
        if (!own || !orr_tree_bool(orr_tree_get(one, "legal"), false)) {
            continue;
        }
        bool fits = orr_tree_bool(orr_tree_get(one, "fits"), false);
        double value = orr_tree_real(orr_tree_get(one, "tokens_per_s_per_gpu"), 0);
        orr_text_format(
            svg,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"%s\"><title>%.0f, "
            "%s</title></circle>\n",
            at_x(f, ++n), at_y(f, fits ? value : 0), fits ? c->color : "white", c->color, value,
            fits ? "fits" : "does not fit");
    }
}

/* Names at the right end, moved apart where curves end alike. */
static void draw_label(orr_text *svg, curve *all, size_t count, size_t index, double y,
                       const char *more) {
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            double apart = y - all[i].last_y;
            if (i != index && apart > -15 && apart < 15) {
                y = all[i].last_y + 15;
                moved = true;
            }
        }
    }
    all[index].last_y = y;
    orr_text_format(svg, "<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s%s</text>\n", LEFT + WIDE + 10,
                    y + 4, all[index].color, all[index].title, more);
}

char *orr_report_best_so_far(orr_arena *arena, const orr_tree *result) {
    curve all[] = {{"certified", "certified", "#000000", "7 4", -1e3},
                   {"model", "language model", "#d55e00", "none", -1e3},
                   {"hill-climb", "hill-climbing", "#0072b2", "none", -1e3},
                   {"random", "random", "#009e73", "2 3", -1e3}};
    enum { COUNT = sizeof all / sizeof *all };
    const orr_tree *run = orr_tree_get(result, "investigation");
    const orr_tree *curves = orr_tree_path(run, "fairness.best_so_far");
    double certified = orr_tree_real(orr_tree_path(result, "best.tokens_per_s_per_gpu"), 0);
    frame f = {1, certified > 0 ? certified : 1e300, certified};
    for (size_t i = 0; i < orr_tree_size(curves); i++) {
        widen(&f, orr_tree_at(curves, i));
    }
    f.low = f.high > 0 && f.low < f.high ? f.low - 0.1 * (f.high - f.low) : 0;
    f.low = f.low < 0 ? 0 : f.low;
    f.high += 0.04 * (f.high - f.low);
    orr_text svg = orr_text_new(arena, SVG_BYTES);
    orr_text_format(&svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    LEFT + WIDE + RIGHT, TOP + HIGH + FOOT);
    draw_frame(&svg, &f);
    if (certified > 0) {
        double y = at_y(&f, certified);
        orr_text_format(&svg,
                        "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" "
                        "stroke-dasharray=\"%s\"/>\n",
                        LEFT, y, LEFT + WIDE, y, all[0].color, all[0].dash);
        draw_label(&svg, all, COUNT, 0, y, " search");
    }
    for (size_t i = 1; i < COUNT; i++) {
        const orr_tree *list = orr_tree_get(curves, all[i].key);
        size_t count = orr_tree_size(list);
        if (count > 0) {
            draw_curve(&svg, &f, &all[i], list);
            draw_label(&svg, all, COUNT, i, at_y(&f, number(list, count - 1)), "");
        }
    }
    draw_trials(&svg, &f, &all[1], orr_tree_get(run, "trials"));
    orr_text_format(
        &svg,
        "<text x=\"%d\" y=\"%d\" fill=\"#555\">Dots: the model's plans; hollow on the floor: "
        "legal, "
        "but too large. Random and hill-climbing: the median of %lld seeds.</text>\n"
        "<text x=\"%d\" y=\"%d\" fill=\"#555\">The certified search may look at many more plans: "
        "%lld here.</text>\n</svg>\n",
        LEFT, TOP + HIGH + 62, (long long)orr_tree_int(orr_tree_path(run, "fairness.seeds"), 1),
        LEFT, TOP + HIGH + 80,
        (long long)orr_tree_int(orr_tree_path(result, "certificate.evaluated"), 0));
    return orr_text_done(&svg);
}
