/* A schedule: its figures, a chart of all ranks as wide as the terminal, and the other schedules.
 *
 * In the chart an op is its letter (F forward, B backward, I input gradient, W weight gradient, O a
 * forward and a backward merged) and as much of its micro-batch as fits; odd chunks have small
 * letters. Colour repeats what the letter says. */
#include <math.h>
#include <string.h>

#include "report/report_int.h"

enum { LABEL = 5, MAX_CELLS = 400 };

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

/* A time in the unit of the answer: seconds, or plain. */
static const char *time_text(orr_page *page, double value, bool seconds) {
    return seconds ? orr_page_seconds(page, value)
                   : orr_arena_format(page->arena, "%.*f", value == floor(value) ? 0 : 3, value);
}

static void add_figures(orr_page *page, const orr_tree *result, bool seconds) {
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "%s", orr_tree_text(orr_tree_get(result, "schedule"), "?"));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   makespan ");
    orr_page_ink(page, INK_GOOD);
    orr_page_add(page, "%s", time_text(page, real(result, "makespan"), seconds));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   bubble %.2f %%   ", 100 * real(result, "bubble"));
    orr_page_add(page, "lower bound %s, %.2f %% above it\n",
                 time_text(page, real(result, "lower_bound"), seconds),
                 100 * real(result, "above_bound_frac"));
    const orr_tree *peak = orr_tree_get(result, "peak_in_flight");
    orr_page_add(page, "in flight (chunks, by rank):");
    for (size_t r = 0; r < orr_tree_size(peak); r++) {
        if (r == 16 && orr_tree_size(peak) > 17 && !page->options.verbose) {
            orr_page_add(page, " ... %lld",
                         (long long)orr_tree_int(orr_tree_at(peak, orr_tree_size(peak) - 1), 0));
            break;
        }
        orr_page_add(page, " %lld", (long long)orr_tree_int(orr_tree_at(peak, r), 0));
    }
    orr_page_add(page, "; at most %s stages\n", orr_page_count(page, real(result, "peak_stages")));
}

/* ---- chart ---------------------------------------------------------------------------------- */

static orr_ink ink_of(char letter) {
    return letter == 'F'   ? INK_STRONG
           : letter == 'W' ? INK_DIM
           : letter == 'O' ? INK_WARN
                           : INK_GOOD;
}

/* "F0.3" as "F3", "f3" when the chunk is odd; what does not fit is cut. */
static void label_of(const char *op, uint32_t cells, char *out) {
    const char *dot = strchr(op, '.');
    bool odd = dot != NULL && dot > op && (dot[-1] - '0') % 2 == 1; /* the chunk's last digit */
    uint32_t used = 0;
    out[used++] = odd ? (char)(*op | 0x20) : *op;
    for (const char *p = dot == NULL ? "" : dot + 1; *p >= '0' && *p <= '9' && used < cells; p++) {
        out[used++] = *p;
    }
    out[used] = '\0';
}

static void add_rank(orr_page *page, const orr_tree *ops, size_t rank, double scale,
                     uint32_t cells) {
    uint32_t at = 0;
    orr_page_add(page, "%4zu ", rank);
    for (size_t i = 0; i < orr_tree_size(ops); i++) {
        const orr_tree *one = orr_tree_at(ops, i);
        const char *op = orr_tree_text(orr_tree_get(one, "op"), "?");
        uint32_t from = (uint32_t)floor(real(one, "start") * scale + 0.5);
        uint32_t to = (uint32_t)floor(real(one, "end") * scale + 0.5);
        from = from < at ? at : from;
        to = to > cells ? cells : to;
        if (to <= from) {
            continue;
        }
        orr_page_ink(page, INK_DIM);
        orr_page_repeat(page, "·", '.', from - at);
        orr_page_ink(page, INK_PLAIN);
        char label[MAX_CELLS + 1];
        label_of(op, to - from, label);
        orr_page_ink(page, ink_of(*op));
        orr_page_add(page, "%s", label);
        orr_page_repeat(page, "─", '-', to - from - (uint32_t)strlen(label));
        orr_page_ink(page, INK_PLAIN);
        at = to;
    }
    orr_page_ink(page, INK_DIM);
    orr_page_repeat(page, "·", '.', cells - at);
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "\n");
}

static void add_chart(orr_page *page, const orr_tree *result, bool seconds) {
    const orr_tree *ranks = orr_tree_path(result, "timeline.ranks");
    double end = 0;
    for (size_t r = 0; r < orr_tree_size(ranks); r++) {
        const orr_tree *ops = orr_tree_at(ranks, r);
        size_t count = orr_tree_size(ops);
        for (size_t i = 0; i < count; i++) {
            double to = real(orr_tree_at(ops, i), "end");
            end = to > end ? to : end;
        }
    }
    if (!(end > 0)) {
        return;
    }
    uint32_t width = page->options.width < 40 ? 40 : page->options.width;
    uint32_t cells = width - LABEL > MAX_CELLS ? MAX_CELLS : width - LABEL;
    orr_page_heading(page, "Ranks over time");
    for (size_t r = 0; r < orr_tree_size(ranks); r++) {
        add_rank(page, orr_tree_at(ranks, r), r, cells / end, cells);
    }
    const char *text = time_text(page, end, seconds);
    orr_page_add(page, "%*s0%*s\n", LABEL, "", (int)cells - 1, text);
    if (!orr_tree_bool(orr_tree_path(result, "timeline.complete"), true)) {
        orr_page_add(page, "%*sthe beginning only; --svg FILE draws more\n", LABEL, "");
    }
}

/* ---- the others ----------------------------------------------------------------------------- */

static void add_others(orr_page *page, const orr_tree *result, bool seconds) {
    const orr_tree *list = orr_tree_get(result, "compare");
    if (orr_tree_size(list) == 0) {
        return;
    }
    bool plan = orr_tree_get(orr_tree_at(list, 0), "step_time_s") != NULL;
    orr_page_heading(page, "The same work under other schedules");
    orr_page_add(page, "    schedule         vpp  %12s  bubble %%  above bound  %s\n", "makespan",
                 plan ? "in flight      memory   tokens/s/GPU" : "in flight (stages)");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        bool best = orr_tree_bool(orr_tree_get(one, "pareto"), false);
        double bound = real(one, "lower_bound");
        orr_page_ink(page, best ? INK_STRONG : INK_PLAIN);
        orr_page_add(page, "%s %s ", orr_tree_bool(orr_tree_get(one, "chosen"), false) ? ">" : " ",
                     best ? "*" : " ");
        orr_page_cell(page, orr_tree_text(orr_tree_get(one, "schedule"), "?"), 16);
        orr_page_add(page, " %3lld  %12s  %8.2f  %9.2f %%  %9.2f",
                     (long long)orr_tree_int(orr_tree_get(one, "vpp"), 1),
                     time_text(page, real(one, "makespan"), seconds), 100 * real(one, "bubble"),
                     bound > 0 ? 100 * (real(one, "makespan") / bound - 1) : 0,
                     real(one, "peak_stages"));
        if (plan) {
            orr_page_add(page, "  %10s  %s%s", orr_page_bytes(page, real(one, "memory_bytes")),
                         orr_page_count(page, real(one, "tokens_per_s_per_gpu")),
                         orr_tree_bool(orr_tree_get(one, "fits"), true) ? "" : "  does not fit");
        }
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, "\n");
    }
    orr_page_add(page, "  * nothing here is faster and lighter; > the schedule above\n");
    const orr_tree *excluded = orr_tree_get(result, "excluded");
    for (size_t i = 0; i < orr_tree_size(excluded) && page->options.verbose; i++) {
        const orr_tree *one = orr_tree_at(excluded, i);
        orr_page_add(page, "    ");
        orr_page_cell(page, orr_tree_text(orr_tree_get(one, "schedule"), "?"), 16);
        orr_page_add(page, " %s\n", orr_tree_text(orr_tree_get(one, "why"), ""));
    }
    if (orr_tree_size(excluded) > 0 && !page->options.verbose) {
        orr_page_add(page, "  %zu more do not take this shape (-v says why)\n",
                     orr_tree_size(excluded));
    }
}

void orr_render_schedule(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    bool seconds = strcmp(orr_tree_text(orr_tree_get(result, "unit"), ""), "s") == 0;
    add_figures(page, result, seconds);
    add_chart(page, result, seconds);
    add_others(page, result, seconds);
    orr_render_assumptions(page, envelope);
}
