/* Where the peak goes: a table for people, a chart as SVG. */
#include <math.h>
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *map, const char *key) {
    return orr_tree_real(orr_tree_get(map, key), 0);
}

static const char *text(const orr_tree *map, const char *key) {
    return orr_tree_text(orr_tree_get(map, key), "");
}

static double last_of(const orr_tree *list) {
    size_t count = orr_tree_size(list);
    return count > 0 ? real(orr_tree_at(list, count - 1), "until_s") : 0;
}

void orr_render_waterfall(orr_page *page, const orr_tree *waterfall) {
    double step_s = last_of(waterfall);
    if (!(step_s > 0)) {
        return;
    }
    orr_page_heading(page, "From the data sheet's peak to the step");
    for (size_t i = 0; i < orr_tree_size(waterfall); i++) {
        const orr_tree *one = orr_tree_at(waterfall, i);
        double value_s = real(one, "time_s");
        if (fabs(value_s) < 0.0005 * step_s) {
            continue;
        }
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "what"), 13);
        orr_page_cell(page,
                      orr_arena_format(page->arena, "%s%s", i > 0 && value_s > 0 ? "+" : "",
                                       orr_page_seconds(page, value_s)),
                      10);
        orr_page_cell(page, orr_arena_format(page->arena, "%5.1f %%", 100 * value_s / step_s), 9);
        orr_page_cell(
            page, orr_arena_format(page->arena, "%4.0f TFLOP/s", real(one, "tflops_per_gpu")), 14);
        orr_page_add(page, "%s\n", text(one, "is"));
    }
}

/* ---- explain -------------------------------------------------------------------------------- */

/* Of a plan that fits, what gains; of another one, all that fits. */
static void add_levers(orr_page *page, const orr_tree *levers, bool fits) {
    orr_page_heading(page, "Single changes that fit, the fastest first");
    size_t shown = 0;
    for (size_t i = 0; i < orr_tree_size(levers); i++) {
        const orr_tree *one = orr_tree_at(levers, i);
        const orr_tree *plan = orr_tree_get(one, "plan");
        bool compared = orr_tree_get(one, "gain") != NULL;
        if (fits && !(real(one, "gain") > 0)) {
            continue;
        }
        shown++;
        orr_text names = orr_text_new(page->arena, 4096);
        for (size_t k = 0; k < orr_tree_size(plan); k++) {
            const orr_tree *value = orr_tree_at(plan, k);
            orr_text_format(&names, "%s%s=", k > 0 ? " " : "", orr_tree_key(plan, k));
            if (orr_tree_kind_of(value) == ORR_TREE_INT) {
                orr_text_format(&names, "%lld", (long long)orr_tree_int(value, 0));
            } else if (orr_tree_kind_of(value) == ORR_TREE_BOOL) {
                orr_text_add(&names, orr_tree_bool(value, false) ? "on" : "off");
            } else {
                orr_text_add(&names, orr_tree_text(value, "?"));
            }
        }
        orr_page_add(page, "  ");
        orr_page_cell(page, orr_text_done(&names), 36);
        orr_page_add(page, " %s tokens/s/GPU",
                     orr_page_count(page, real(one, "tokens_per_s_per_gpu")));
        if (compared) {
            orr_page_add(page, "  %+.1f %%", 100 * real(one, "gain"));
        }
        orr_page_add(page, "\n");
    }
    if (shown == 0) {
        orr_page_add(page, orr_tree_size(levers) > 0 ? "  none gains\n" : "  none does\n");
    }
}

void orr_render_explain(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *plan = orr_tree_get(result, "plan");
    const orr_tree *time = orr_tree_get(result, "time");
    orr_render_verdict(page, orr_tree_get(result, "verdict"), NULL);
    if (time != NULL) {
        orr_page_ink(page, INK_STRONG);
        orr_page_add(page, "%s tokens/s/GPU",
                     orr_page_count(page, real(plan, "tokens_per_s_per_gpu")));
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, "   step %s\n", orr_page_seconds(page, real(plan, "step_time_s")));
        orr_render_waterfall(page, orr_tree_get(result, "waterfall"));
        orr_page_heading(page, "What acts on it");
    }
    for (size_t i = 0; i < orr_tree_size(time); i++) {
        const orr_tree *one = orr_tree_at(time, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "what"), 13);
        orr_page_cell(page, orr_arena_format(page->arena, "%5.1f %%", 100 * real(one, "share")), 9);
        orr_page_add(page, "%s\n", text(one, "keys"));
    }
    const orr_tree *memory = orr_tree_get(result, "memory");
    if (memory != NULL) {
        orr_page_heading(page,
                         orr_arena_format(page->arena, "Memory of rank %lld at %s: %s of %s",
                                          (long long)real(memory, "rank"), text(memory, "moment"),
                                          orr_page_bytes(page, real(memory, "need_bytes")),
                                          orr_page_bytes(page, real(memory, "usable_bytes"))));
        const orr_tree *parts = orr_tree_get(memory, "parts");
        for (size_t i = 0; i < orr_tree_size(parts); i++) {
            const char *key = orr_tree_key(parts, i);
            double bytes = orr_tree_real(orr_tree_at(parts, i), 0);
            if (bytes > 0) {
                orr_page_add(page, "  ");
                orr_page_cell(page, orr_arena_copy(page->arena, key, strcspn(key, "_")), 13);
                orr_page_add(page, "%s\n", orr_page_bytes(page, bytes));
            }
        }
    }
    add_levers(page, orr_tree_get(result, "levers"),
               orr_tree_bool(orr_tree_get(plan, "fits"), false));
}

/* ---- chart ---------------------------------------------------------------------------------- */

enum {
    SVG_LIMIT_BYTES = 1 << 20,
    WIDTH = 960,
    LEFT = 130,
    RIGHT = 150,
    TOP = 56,
    ROW = 26,
    BAR = 18
};

/* Okabe-Ito: peak, what the chip loses, what the plan loses, the step. */
static const char *fill_of(size_t index, double value_s) {
    return index == 0    ? "#009e73"
           : value_s < 0 ? "#999999"
           : index <= 5  ? "#56b4e9"
           : index <= 8  ? "#e69f00"
           : index <= 14 ? "#d55e00"
                         : "#cc79a7";
}

static void add_bar(orr_text *svg, size_t row, double from_s, double value_s, double scale,
                    const char *fill, const char *name, const char *label) {
    size_t y = TOP + row * ROW;
    double low = value_s < 0 ? from_s + value_s : from_s, x = LEFT + low * scale;
    double width = fabs(value_s) * scale;
    orr_text_format(svg,
                    "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">%s</text>"
                    "<rect x=\"%.1f\" y=\"%zu\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>"
                    "<text x=\"%.1f\" y=\"%zu\">%s</text>\n",
                    LEFT - 10, y + 14, name, x, y, width < 1 ? 1 : width, BAR, fill, x + width + 6,
                    y + 14, label);
}

char *orr_report_waterfall(orr_arena *arena, const orr_tree *result) {
    orr_page page = {.text = orr_text_new(arena, 1 << 16), .arena = arena};
    const orr_tree *list = orr_tree_get(result, "waterfall");
    double step_s = last_of(list), before_s = 0;
    double scale = step_s > 0 ? (WIDTH - LEFT - RIGHT) / step_s : 0;
    size_t shown = 0;
    orr_text svg = orr_text_new(arena, SVG_LIMIT_BYTES);
    orr_text rows = orr_text_new(arena, SVG_LIMIT_BYTES);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        double value_s = real(one, "time_s");
        if (i == 0 || fabs(value_s) >= 0.0005 * step_s) {
            add_bar(&rows, shown, before_s, value_s, scale, fill_of(i, value_s), text(one, "what"),
                    orr_arena_format(arena, "%s%s, %.0f TFLOP/s", i > 0 && value_s > 0 ? "+" : "",
                                     orr_page_seconds(&page, value_s),
                                     real(one, "tflops_per_gpu")));
            shown++;
        }
        before_s += value_s;
    }
    add_bar(&rows, shown, 0, step_s, scale, "#000000", "step",
            orr_arena_format(arena, "%s, %.0f TFLOP/s", orr_page_seconds(&page, step_s),
                             real(result, "tflops_per_gpu")));
    size_t height = TOP + (shown + 1) * ROW + 20;
    orr_text_format(&svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
                    "viewBox=\"0 0 %d %zu\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
                    "<text x=\"%d\" y=\"24\" font-size=\"15\">From the data sheet's peak to the "
                    "step: %s tokens/s/GPU, MFU %.1f %%</text>\n"
                    "<text x=\"%d\" y=\"42\" fill=\"#555555\">seconds that each cause adds, and "
                    "what is left of the peak after it</text>\n",
                    WIDTH, height, WIDTH, height, LEFT,
                    orr_page_count(&page, real(result, "tokens_per_s_per_gpu")),
                    100 * real(result, "mfu"), LEFT);
    orr_text_add(&svg, orr_text_done(&rows));
    orr_text_add(&svg, "</svg>\n");
    return orr_text_done(&svg);
}
