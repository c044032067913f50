/* A schedule as an SVG chart: ranks down, time across, one box an op. Colours are from the
 * Okabe-Ito palette; letters say the same. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "orrery/report.h"

enum {
    SVG_LIMIT_BYTES = 64 << 20,
    LEFT = 56,
    TOP = 40,
    ROW = 22,
    LEGEND = 44,
    LEAST_WIDTH = 900,
    MOST_WIDTH = 12000,
    WISHED_OP = 26 /* pixels of the shortest op, where there is room */
};

typedef struct look {
    char letter;
    const char *what, *fill, *odd, *ink; /* odd: of odd chunks */
} look;
static const look looks[] = {
    {'F', "forward", "#56b4e9", "#a9d8f3", "#000000"},
    {'B', "backward", "#009e73", "#7fcdb8", "#000000"},
    {'I', "input gradient", "#009e73", "#7fcdb8", "#000000"},
    {'W', "weight gradient", "#f0e442", "#f7f1a0", "#000000"},
    {'O', "forward and backward merged", "#e69f00", "#f2cf80", "#000000"},
};
enum { LOOKS = sizeof looks / sizeof *looks };

static const look *look_of(char letter) {
    size_t i = 0;
    while (i + 1 < LOOKS && looks[i].letter != letter) {
        i++;
    }
    return &looks[i];
}

static double real(const orr_tree *node, const char *key) {
    return orr_tree_real(orr_tree_get(node, key), 0);
}

/* Op names are made of letters, digits, dots, commas and brackets; anything else is left out. */
static const char *clean(orr_arena *arena, const char *name) {
    char *out = orr_arena_text(arena, name), *to = out;
    for (const char *p = name; *p != '\0'; p++) {
        if ((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') || strchr(".,()", *p) != NULL) {
            *to++ = *p;
        }
    }
    *to = '\0';
    return out;
}

static void add_op(orr_text *svg, const orr_tree *one, size_t rank, double scale) {
    const char *name = clean(svg->arena, orr_tree_text(orr_tree_get(one, "op"), "?"));
    const look *l = look_of(*name);
    double x = LEFT + real(one, "start") * scale, width = (real(one, "end") * scale + LEFT) - x;
    size_t y = TOP + rank * ROW;
    const char *dot = strchr(name, '.');
    bool odd = dot != NULL && dot > name && (dot[-1] - '0') % 2 == 1; /* the chunk's last digit */
    orr_text_format(svg,
                    "<g><title>%s</title><rect x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\" "
                    "fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.5\"/>",
                    name, x, y, width, ROW - 4, odd ? l->odd : l->fill);
    char text[16] = {*name, '\0'};
    for (size_t i = 1; dot != NULL && dot[i] >= '0' && dot[i] <= '9' && i < sizeof text - 1; i++) {
        text[i] = dot[i];
    }
    if (width >= 7.0 * (double)strlen(text)) {
        orr_text_format(svg,
                        "<text x=\"%.2f\" y=\"%zu\" text-anchor=\"middle\" fill=\"%s\">%s</text>",
                        x + width / 2, y + 13, l->ink, text);
    }
    orr_text_add(svg, "</g>\n");
}

static void add_legend(orr_text *svg, size_t y) {
    int x = LEFT;
    for (size_t i = 0; i < LOOKS; i++) {
        orr_text_format(svg,
                        "<rect x=\"%d\" y=\"%zu\" width=\"18\" height=\"14\" fill=\"%s\"/>"
                        "<text x=\"%d\" y=\"%zu\">%c %s</text>\n",
                        x, y, looks[i].fill, x + 24, y + 11, looks[i].letter, looks[i].what);
        x += 60 + 7 * (int)strlen(looks[i].what);
    }
}

/* A rounded step between the lines of the time axis: 1, 2 or 5 times a power of ten. */
static double axis_step(double end) {
    double step = pow(10, floor(log10(end / 5)));
    return end / step > 25 ? 5 * step : end / step > 10 ? 2 * step : step;
}

char *orr_report_gantt(orr_arena *arena, const orr_tree *result) {
    const orr_tree *ranks = orr_tree_path(result, "timeline.ranks");
    const char *unit = orr_tree_text(orr_tree_get(result, "unit"), "");
    double end = 0, shortest = HUGE_VAL;
    for (size_t r = 0; r < orr_tree_size(ranks); r++) {
        for (size_t i = 0; i < orr_tree_size(orr_tree_at(ranks, r)); i++) {
            const orr_tree *one = orr_tree_at(orr_tree_at(ranks, r), i);
            double length = real(one, "end") - real(one, "start");
            end = real(one, "end") > end ? real(one, "end") : end;
            shortest = length > 0 && length < shortest ? length : shortest;
        }
    }
    double across = end > 0 ? WISHED_OP * end / shortest : LEAST_WIDTH;
    across = across < LEAST_WIDTH ? LEAST_WIDTH : across > MOST_WIDTH ? MOST_WIDTH : across;
    double scale = end > 0 ? across / end : 0;
    size_t bottom = TOP + orr_tree_size(ranks) * ROW;
    orr_text svg = orr_text_new(arena, SVG_LIMIT_BYTES);
    orr_text_format(
        &svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%zu\" "
        "font-family=\"sans-serif\" font-size=\"10\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"8\" y=\"16\" font-size=\"13\">%s%s</text>\n",
        across + LEFT + 20, bottom + LEGEND + 20,
        clean(arena, orr_tree_text(orr_tree_get(result, "schedule"), "")),
        orr_tree_bool(orr_tree_path(result, "timeline.complete"), true) ? "" : " (the beginning)");
    for (double t = 0, step = axis_step(end > 0 ? end : 1); t <= end; t += step) {
        orr_text_format(&svg,
                        "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%zu\" stroke=\"#dddddd\"/>"
                        "<text x=\"%.2f\" y=\"%zu\" text-anchor=\"middle\">%g%s%s</text>\n",
                        LEFT + t * scale, TOP - 6, LEFT + t * scale, bottom, LEFT + t * scale,
                        bottom + 12, t, *unit == '\0' ? "" : " ", clean(arena, unit));
    }
    for (size_t r = 0; r < orr_tree_size(ranks); r++) {
        orr_text_format(&svg, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">rank %zu</text>\n",
                        LEFT - 8, TOP + r * ROW + 13, r);
        for (size_t i = 0; i < orr_tree_size(orr_tree_at(ranks, r)); i++) {
            add_op(&svg, orr_tree_at(orr_tree_at(ranks, r), i), r, scale);
        }
    }
    add_legend(&svg, bottom + 24);
    orr_text_add(&svg, "</svg>\n");
    return orr_text_done(&svg);
}
