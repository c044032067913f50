/* The error heat map: one cell a model and device, its median signed error in per cent. Colour says
 * how far and which way (blue: measured is faster than projected, orange: slower; from the
 * Okabe-Ito palette, told apart by all), the signed label says the same in black and white. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "orrery/report.h"

enum {
    SVG_LIMIT_BYTES = 16 << 20,
    MAX_NAMES = 512,
    CELL_WIDTH = 46,
    CELL_HEIGHT = 17,
    LEFT = 236,
    TOP = 120,
    LEGEND = 60,
    FEW_RUNS = 4 /* models with fewer share a line */
};
static const char others[] = "models with fewer runs";

typedef struct names {
    const char *name[MAX_NAMES];
    uint32_t rows[MAX_NAMES]; /* rows under each */
    uint32_t count;
} names;

/* One projected row. */
typedef struct point {
    uint32_t model, column;
    double error;
} point;

static uint32_t index_of(names *list, const char *name) {
    uint32_t i = 0;
    while (i < list->count && strcmp(list->name[i], name) != 0) {
        i++;
    }
    if (i == list->count) {
        if (list->count == MAX_NAMES) {
            return MAX_NAMES;
        }
        list->name[list->count] = name;
        list->rows[list->count++] = 0;
    }
    return i;
}

static int by_error(const void *a, const void *b) {
    const double x = ((const point *)a)->error, y = ((const point *)b)->error;
    return (x > y) - (x < y);
}

/* Points of one cell next to each other, errors ascending. */
static int by_cell(const void *a, const void *b) {
    const point *x = (const point *)a, *y = (const point *)b;
    int order = (x->model > y->model) - (x->model < y->model);
    order = order != 0 ? order : (x->column > y->column) - (x->column < y->column);
    return order != 0 ? order : by_error(a, b);
}

static void escape(orr_text *text, const char *name) {
    for (const char *p = name; *p != '\0'; p++) {
        switch (*p) {
        case '<': orr_text_add(text, "&lt;"); break;
        case '>': orr_text_add(text, "&gt;"); break;
        case '&': orr_text_add(text, "&amp;"); break;
        case '"': orr_text_add(text, "&quot;"); break;
        default: orr_text_addn(text, p, (unsigned char)*p < ' ' ? 0 : 1);
        }
    }
}

typedef struct shade {
    double upto; /* of the absolute error */
    const char *slower, *faster, *ink;
} shade;
/* Tints of Okabe-Ito orange-red (#D55E00) and blue (#0072B2), light to full. */
static const shade shades[] = {
    {0.02, "#ffffff", "#ffffff", "#000000"}, {0.05, "#fbeadd", "#dcebf5", "#000000"},
    {0.10, "#f2c5a3", "#a9d0e8", "#000000"}, {0.20, "#e58f4d", "#5ba5d0", "#000000"},
    {0.50, "#d55e00", "#0072b2", "#ffffff"}, {HUGE_VAL, "#8a3d00", "#004a73", "#ffffff"},
};
enum { SHADES = sizeof shades / sizeof *shades };

static const shade *shade_of(double error) {
    size_t i = 0;
    while (i + 1 < SHADES && fabs(error) > shades[i].upto) {
        i++;
    }
    return &shades[i];
}

/* Per cent with its sign; a true minus, so that plus and minus are as wide. */
static const char *label(orr_arena *arena, double error) {
    double percent = floor(fabs(error) * 100 + 0.5);
    return percent == 0 ? "0"
                        : orr_arena_format(arena, "%s%.0f", error < 0 ? "\u2212" : "+", percent);
}

static void add_cell(orr_text *svg, const point *points, uint32_t count) {
    double at = 0.5 * (count - 1);
    uint32_t low = (uint32_t)at;
    double median = points[low].error;
    if (count % 2 == 0) {
        median = 0.5 * (median + points[low + 1].error);
    }
    const shade *s = shade_of(median);
    uint32_t x = LEFT + points->column * CELL_WIDTH, y = TOP + points->model * CELL_HEIGHT;
    orr_text_format(svg,
                    "<g><title>%u rows, median %+.1f %%</title><rect x=\"%u\" y=\"%u\" "
                    "width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#999999\" "
                    "stroke-width=\"0.5\"/>",
                    count, 100 * median, x, y, CELL_WIDTH, CELL_HEIGHT,
                    median > 0 ? s->slower : s->faster);
    orr_text_format(svg,
                    "<text x=\"%u\" y=\"%u\" text-anchor=\"end\" fill=\"%s\">%s</text>"
                    "<text x=\"%u\" y=\"%u\" text-anchor=\"end\" fill=\"%s\" "
                    "font-size=\"7\">%u</text></g>\n",
                    x + 29, y + 12, s->ink, label(svg->arena, median), x + CELL_WIDTH - 2, y + 12,
                    s->ink, count);
}

/* Whether two columns differ in their precision alone. */
static bool same_device(const char *a, const char *b) {
    size_t length = strcspn(a, " ");
    return length == strcspn(b, " ") && strncmp(a, b, length) == 0;
}

static void add_axes(orr_text *svg, const names *models, const names *columns) {
    uint32_t width = columns->count * CELL_WIDTH, height = models->count * CELL_HEIGHT;
    orr_text_add(svg, "<path stroke=\"#dddddd\" stroke-width=\"0.5\" d=\"");
    for (uint32_t m = 0; m <= models->count; m++) {
        orr_text_format(svg, "M%d %uh%u", LEFT, TOP + m * CELL_HEIGHT, width);
    }
    for (uint32_t c = 0; c <= columns->count; c++) {
        if (c == 0 || c == columns->count || !same_device(columns->name[c - 1], columns->name[c])) {
            orr_text_format(svg, "M%u %dv%u", LEFT + c * CELL_WIDTH, TOP, height);
        }
    }
    orr_text_add(svg, "\"/>\n");
    for (uint32_t m = 0; m < models->count; m++) {
        orr_text_format(svg, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">", LEFT - 6,
                        TOP + m * CELL_HEIGHT + 12);
        escape(svg, models->name[m]);
        orr_text_add(svg, "</text>\n");
    }
    for (uint32_t c = 0; c < columns->count; c++) {
        uint32_t x = LEFT + c * CELL_WIDTH + CELL_WIDTH / 2 + 4;
        orr_text_format(svg, "<text transform=\"translate(%u,%d) rotate(-50)\">", x, TOP - 6);
        escape(svg, columns->name[c]);
        orr_text_add(svg, "</text>\n");
    }
}

static void add_legend(orr_text *svg, uint32_t y) {
    static const char *const words[] = {"\u2264 2 %", "2\u20135",   "5\u201310",
                                        "10\u201320", "20\u201350", "> 50 %"};
    static const char *const rows[] = {"projected too fast (+)", "projected too slow (\u2212)"};
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t at = y + r * (CELL_HEIGHT + 4);
        orr_text_format(svg, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                        at + 12, rows[r]);
        for (uint32_t i = 0; i < SHADES; i++) {
            orr_text_format(svg,
                            "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"%s\" "
                            "stroke=\"#999999\" stroke-width=\"0.5\"/><text x=\"%u\" y=\"%u\" "
                            "text-anchor=\"middle\" fill=\"%s\" font-size=\"9\">%s</text>\n",
                            LEFT + i * CELL_WIDTH, at, CELL_WIDTH, CELL_HEIGHT,
                            r == 0 ? shades[i].slower : shades[i].faster,
                            LEFT + i * CELL_WIDTH + CELL_WIDTH / 2, at + 12, shades[i].ink,
                            words[i]);
        }
    }
}

/* Formats that differ in their scaling alone are one column. */
static const char *short_precision(const char *precision) {
    static const struct {
        const char *start, *name;
    } kinds[] = {{"bf16", "bf16"}, {"fp16", "bf16"}, {"fp8", "fp8"},
                 {"mxfp8", "fp8"}, {"nvfp4", "fp4"}, {"", "bf16"}};
    size_t i = 0;
    while (strncmp(precision, kinds[i].start, strlen(kinds[i].start)) != 0) {
        i++;
    }
    return kinds[i].name;
}

/* Models with few runs become one, the last. */
static void merge_few(names *models, point *points, uint32_t count) {
    names kept = {.count = 0};
    uint32_t *place = kept.rows, few = 0; /* reuse: new index of each old name */
    for (uint32_t m = 0; m < models->count; m++) {
        bool stays = models->rows[m] >= FEW_RUNS;
        place[m] = stays ? kept.count : MAX_NAMES;
        if (stays) {
            kept.name[kept.count++] = models->name[m];
        } else {
            few++;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = place[points[i].model];
        points[i].model = to == MAX_NAMES ? kept.count : to;
    }
    if (few > 0) {
        kept.name[kept.count++] = others;
    }
    *models = kept;
}

/* Names by rank of text, so that columns of one device stand together. */
static void sort_names(names *list, uint32_t *place) {
    names sorted = *list;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < list->count; k++) {
            bool last_i = list->name[i] == others, last_k = list->name[k] == others;
            before += last_i != last_k ? last_i : strcmp(list->name[k], list->name[i]) < 0;
        }
        place[i] = before;
        sorted.name[before] = list->name[i];
    }
    *list = sorted;
}

static uint32_t read_points(orr_arena *arena, const orr_tree *rows, names *models, names *columns,
                            point *out) {
    uint32_t n = 0;
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i), *error = orr_tree_get(row, "error");
        if (error == NULL || !orr_tree_bool(orr_tree_get(row, "counts"), true)) {
            continue;
        }
        const char *gpu = orr_tree_text(orr_tree_get(row, "gpu"), "?");
        const char *precision = orr_tree_text(orr_tree_get(row, "precision"), "");
        uint32_t model = index_of(models, orr_tree_text(orr_tree_get(row, "model"), "?"));
        uint32_t column =
            index_of(columns, orr_arena_format(arena, "%s %s", gpu, short_precision(precision)));
        if (model < MAX_NAMES && column < MAX_NAMES) {
            models->rows[model]++;
            columns->rows[column]++;
            out[n++] = (point){model, column, orr_tree_real(error, 0)};
        }
    }
    return n;
}

char *orr_report_heatmap(orr_arena *arena, const orr_tree *envelope) {
    const orr_tree *rows = orr_tree_get(envelope, "rows");
    names *models = ORR_NEW(arena, names), *columns = ORR_NEW(arena, names);
    point *points = ORR_NEW_ARRAY(arena, point, orr_tree_size(rows));
    uint32_t *place = ORR_NEW_ARRAY(arena, uint32_t, 2 * MAX_NAMES);
    uint32_t n = read_points(arena, rows, models, columns, points);
    merge_few(models, points, n);
    sort_names(models, place);
    sort_names(columns, place + MAX_NAMES);
    for (uint32_t i = 0; i < n; i++) {
        points[i].model = place[points[i].model];
        points[i].column = place[MAX_NAMES + points[i].column];
    }
    if (n > 0) {
        qsort(points, n, sizeof *points, by_cell);
    }
    uint32_t width = LEFT + columns->count * CELL_WIDTH + 80;
    uint32_t bottom = TOP + models->count * CELL_HEIGHT + 16;
    width = width < LEFT + SHADES * CELL_WIDTH + 20 ? LEFT + SHADES * CELL_WIDTH + 20 : width;
    orr_text svg = orr_text_new(arena, SVG_LIMIT_BYTES);
    orr_text_format(&svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                    "viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                    "<text x=\"10\" y=\"20\" font-size=\"14\">Error of projected tokens/s/GPU, "
                    "median in %%</text>\n<text x=\"10\" y=\"36\" font-size=\"10\">small figures: "
                    "measured runs in the cell; %u runs in all</text>\n",
                    width, bottom + LEGEND, width, bottom + LEGEND, n);
    add_axes(&svg, models, columns);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && points[end].model == points[i].model &&
                          points[end].column == points[i].column;
             end++) {
        }
        add_cell(&svg, &points[i], end - i);
    }
    add_legend(&svg, bottom);
    orr_text_add(&svg, "</svg>\n");
    return orr_text_done(&svg);
}
