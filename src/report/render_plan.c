/* Results about one plan: verdict, headline, waterfall, memory by rank. */
#include <math.h>
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static const char *text(const orr_tree *node, const char *path) {
    return orr_tree_text(orr_tree_path(node, path), "");
}

/* ---- inputs, assumptions -------------------------------------------------------------------- */

static void add_input(orr_page *page, const orr_tree *inputs, const char *key, const char *label) {
    const orr_tree *value = orr_tree_get(inputs, key);
    if (value == NULL) {
        return;
    }
    if (orr_tree_kind_of(value) == ORR_TREE_TEXT) {
        orr_page_add(page, "%s%s ", label, orr_tree_text(value, ""));
    } else {
        orr_page_add(page, "%s%lld ", label, (long long)orr_tree_int(value, 0));
    }
}

/* The accelerator, or the cluster that names it; either may be a map. */
static const char *machine(const orr_tree *inputs) {
    static const char *const keys[] = {"hardware", "cluster"};
    for (size_t i = 0; i < 2; i++) {
        const orr_tree *node = orr_tree_get(inputs, keys[i]);
        const char *name =
            orr_tree_kind_of(node) == ORR_TREE_MAP ? text(node, "name") : orr_tree_text(node, "");
        if (name[0] != '\0') {
            return name;
        }
    }
    return "GPU";
}

static void render_inputs(orr_page *page, const orr_tree *envelope) {
    const orr_tree *inputs = orr_tree_get(envelope, "inputs");
    const orr_tree *model = orr_tree_get(inputs, "model");
    const char *name =
        orr_tree_kind_of(model) == ORR_TREE_MAP ? text(model, "name") : orr_tree_text(model, "?");
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "%s on %lld x %s", name, (long long)real(inputs, "gpus"), machine(inputs));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   ");
    static const char *const keys[][2] = {
        {"tp", "tp "},   {"pp", "pp "},     {"vpp", "vpp "},  {"cp", "cp "},
        {"ep", "ep "},   {"dp", "dp "},     {"mbs", "mbs "},  {"gbs", "gbs "},
        {"seq", "seq "}, {"precision", ""}, {"sharding", ""}, {"schedule", ""},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        add_input(page, inputs, keys[i][0], keys[i][1]);
    }
    orr_page_add(page, "\n");
}

void orr_render_assumptions(orr_page *page, const orr_tree *envelope) {
    const orr_tree *list = orr_tree_get(envelope, "assumptions");
    if (orr_tree_size(list) == 0) {
        return;
    }
    orr_page_heading(page, "Assumed, since nobody said");
    if (!page->options.verbose) {
        orr_page_add(page, "  ");
        uint32_t column = 2;
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            const orr_tree *one = orr_tree_at(list, i);
            const char *item =
                orr_arena_format(page->arena, "%s=%s", text(one, "key"), text(one, "value"));
            uint32_t length = (uint32_t)strlen(item);
            if (column + length + 2 > page->options.width) {
                orr_page_add(page, "\n  ");
                column = 2;
            }
            orr_page_add(page, "%s%s", item, i + 1 < orr_tree_size(list) ? ", " : "");
            column += length + 2;
        }
        orr_page_add(page, "\n  (-v says why)\n");
        return;
    }
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, text(one, "key"), 18);
        orr_page_cell(page, text(one, "value"), 18);
        orr_page_add(page, " %s\n", text(one, "why"));
    }
}

/* ---- verdict -------------------------------------------------------------------------------- */

static void add_rules(orr_page *page, const orr_tree *verdict) {
    const orr_tree *rules = orr_tree_get(verdict, "rules");
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const orr_tree *rule = orr_tree_at(rules, i);
        const char *effect = text(rule, "effect");
        bool warning = strcmp(effect, "warning") == 0;
        orr_page_add(page, "  ");
        orr_page_ink(page, warning ? INK_WARN : INK_BAD);
        orr_page_add(page, "%s", strcmp(effect, "does_not_start") == 0 ? "does not start" : effect);
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, " [%s] %s\n", text(rule, "id"), text(rule, "message"));
        if (text(rule, "hint")[0] != '\0') {
            orr_page_add(page, "      help: %s\n", text(rule, "hint"));
        }
    }
}

typedef struct verdict_words {
    const char *mark, *plain, *words;
    orr_ink ink;
} verdict_words;

static verdict_words words_of(const orr_tree *verdict) {
    const char *fit = text(verdict, "fit");
    if (!orr_tree_bool(orr_tree_get(verdict, "legal"), true)) {
        return (verdict_words){"✗", "x", "ILLEGAL: the plan contradicts itself", INK_BAD};
    }
    if (!orr_tree_bool(orr_tree_get(verdict, "starts"), true)) {
        return (verdict_words){"✗", "x", "DOES NOT START: refused at launch", INK_BAD};
    }
    if (strcmp(fit, "fits") == 0) {
        return (verdict_words){"✓", "+", "FITS", INK_GOOD};
    }
    if (strcmp(fit, "tight") == 0) {
        return (verdict_words){"!", "!", "TIGHT: fits, with little to spare", INK_WARN};
    }
    if (strcmp(fit, "likely_oom") == 0) {
        return (verdict_words){"✗", "x", "LIKELY OUT OF MEMORY", INK_BAD};
    }
    if (strcmp(fit, "depends_on_recompute") == 0) {
        return (verdict_words){"!", "!", "FITS ONLY WITH RECOMPUTE, which is not stated", INK_WARN};
    }
    return (verdict_words){"✗", "x", "OUT OF MEMORY", INK_BAD};
}

void orr_render_verdict(orr_page *page, const orr_tree *verdict, const orr_tree *memory) {
    verdict_words words = words_of(verdict);
    orr_page_ink(page, words.ink);
    orr_page_add(page, "%s %s", page->options.ascii ? words.plain : words.mark, words.words);
    orr_page_ink(page, INK_PLAIN);
    if (memory != NULL) {
        double need = real(memory, "need_bytes"), capacity = real(memory, "capacity_bytes");
        orr_page_add(page,
                     "   rank %lld needs %s of %s usable at %s: %.0f %%, the line is at 96 %%; "
                     "P(OOM) %.0f %%",
                     (long long)real(memory, "worst_rank"), orr_page_bytes(page, need),
                     orr_page_bytes(page, capacity), text(memory, "moment"),
                     capacity > 0 ? 100 * need / capacity : 0, 100 * real(verdict, "p_oom"));
    }
    orr_page_add(page, "\n");
    add_rules(page, verdict);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void add_headline(orr_page *page, const orr_tree *result) {
    const orr_tree *interval = orr_tree_get(result, "interval_90");
    double rate = real(result, "tokens_per_s_per_gpu");
    double low = orr_tree_real(orr_tree_at(interval, 0), 0);
    double high = orr_tree_real(orr_tree_at(interval, 1), 0);
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "%s tokens/s/GPU", orr_page_count(page, rate));
    orr_page_ink(page, INK_PLAIN);
    orr_page_add(page, "   90 %%: %s to %s   step %s   %.0f TFLOP/s/GPU   MFU %.1f %%\n",
                 orr_page_count(page, low), orr_page_count(page, high),
                 orr_page_seconds(page, real(result, "step_time_s")),
                 real(result, "tflops_per_gpu"), 100 * real(result, "mfu"));
}

static void add_anchor(orr_page *page, const orr_tree *anchor) {
    if (anchor == NULL) {
        return;
    }
    orr_page_add(page,
                 "  anchored on %s tokens/s/GPU measured on %lld GPUs: compute x %.3f, throughput "
                 "%+.1f %%, 90 %% interval %.0f %% wide instead of %.0f %%\n",
                 orr_page_count(page, real(anchor, "tokens_per_s_per_gpu")),
                 (long long)real(anchor, "gpus"), real(anchor, "compute_factor"),
                 100 * real(anchor, "change_frac"), 100 * real(anchor, "width_frac"),
                 100 * real(anchor, "before_width_frac"));
}

/* Each slice starts where the one before it ended, so the last ends at the step. */
static void add_waterfall(orr_page *page, const orr_tree *result) {
    const orr_tree *breakdown = orr_tree_get(result, "breakdown");
    double step_s = real(result, "step_time_s"), before_s = 0;
    uint32_t cells = page->options.width > 60 ? page->options.width - 36 : 24;
    orr_page_heading(page, "Where a step goes (slowest rank)");
    for (size_t i = 0; i < orr_tree_size(breakdown); i++) {
        const char *key = orr_tree_key(breakdown, i);
        double value_s = orr_tree_real(orr_tree_at(breakdown, i), 0);
        double share = step_s > 0 ? value_s / step_s : 0;
        if (share < 0.0005 && !page->options.verbose) {
            before_s += value_s;
            continue;
        }
        char name[32];
        (void)snprintf(name, sizeof name, "%.*s", (int)strlen(key) - 2, key);
        orr_page_add(page, "  ");
        orr_page_cell(page, name, 12);
        orr_page_cell(page, orr_page_seconds(page, value_s), 9);
        orr_page_add(page, "%5.1f %%  ", 100 * share);
        uint32_t start = step_s > 0 ? (uint32_t)(cells * before_s / step_s) : 0;
        for (uint32_t c = 0; c < start; c++) {
            orr_page_add(page, " ");
        }
        uint32_t left = cells - (start < cells ? start : cells);
        uint32_t want = (uint32_t)ceil(share * cells);
        orr_page_bar(page, want > 0 ? share * cells / want : 0, want < left ? want : left);
        orr_page_add(page, "\n");
        before_s += value_s;
    }
}

static void add_provenance(orr_page *page, const orr_tree *result) {
    const orr_tree *origin = orr_tree_get(result, "provenance");
    double step_s = real(result, "step_time_s");
    orr_page_add(page, "  of this");
    for (size_t i = 0; i < orr_tree_size(origin); i++) {
        const char *key = orr_tree_key(origin, i);
        double share = step_s > 0 ? orr_tree_real(orr_tree_at(origin, i), 0) / step_s : 0;
        if (share >= 0.0005) {
            orr_page_add(page, " %.1f %% %.*s", 100 * share, (int)strlen(key) - 2, key);
        }
    }
    orr_page_add(page, "\n");
}

/* ---- memory --------------------------------------------------------------------------------- */

static const struct {
    const char *key, *wide, *label;
    char letter;
} parts[] = {
    {"params_bytes", "█", "parameters", 'P'},       {"grads_bytes", "▓", "gradients", 'G'},
    {"master_bytes", "▒", "master", 'M'},           {"moments_bytes", "░", "moments", 'm'},
    {"buffers_bytes", "▚", "buffers", 'b'},         {"persistent_bytes", "▞", "persistent", 'p'},
    {"activations_bytes", "■", "activations", 'A'}, {"transient_bytes", "□", "transient", 't'},
    {"logits_bytes", "◆", "logits", 'L'},
};
enum { PART_COUNT = sizeof parts / sizeof *parts, RANKS_SHOWN = 16 };

static void add_rank_bar(orr_page *page, const orr_tree *rank, double scale, uint32_t cells,
                         double capacity) {
    uint32_t drawn = 0;
    double sum = 0;
    for (size_t p = 0; p < PART_COUNT; p++) {
        sum += real(orr_tree_get(rank, "parts"), parts[p].key);
        uint32_t until = (uint32_t)floor(sum / scale * cells + 0.5);
        until = until > cells ? cells : until;
        if (until > drawn) {
            orr_page_repeat(page, parts[p].wide, parts[p].letter, until - drawn);
            drawn = until;
        }
    }
    uint32_t limit = (uint32_t)floor(capacity / scale * cells + 0.5);
    for (; drawn < cells; drawn++) {
        orr_page_add(page, "%s", drawn == limit ? "|" : " ");
    }
}

static void render_memory_bars(orr_page *page, const orr_tree *memory) {
    const orr_tree *ranks = orr_tree_get(memory, "ranks");
    double capacity = real(memory, "capacity_bytes"), scale = capacity;
    size_t count = orr_tree_size(ranks);
    for (size_t r = 0; r < count; r++) {
        double own = real(orr_tree_at(ranks, r), "allocated_bytes");
        scale = own > scale ? own : scale;
    }
    if (count == 0 || !(scale > 0)) {
        return;
    }
    scale *= 1.02;
    uint32_t cells = page->options.width > 70 ? page->options.width - 40 : 30;
    orr_page_heading(page, "Memory by pipeline rank, at its worst moment");
    for (size_t r = 0; r < count; r++) {
        size_t worst = (size_t)real(memory, "worst_rank");
        bool shown = page->options.verbose || count <= RANKS_SHOWN || r < RANKS_SHOWN / 2 ||
                     r + RANKS_SHOWN / 2 >= count || r == worst;
        if (!shown) {
            if (r == RANKS_SHOWN / 2) {
                orr_page_add(page, "  ... (-v shows every rank)\n");
            }
            continue;
        }
        const orr_tree *rank = orr_tree_at(ranks, r);
        orr_page_add(page, "  %3zu ", r);
        add_rank_bar(page, rank, scale, cells, capacity);
        orr_page_add(page, " %10s  %s\n", orr_page_bytes(page, real(rank, "allocated_bytes")),
                     text(rank, "moment"));
    }
    orr_page_add(page, "  ");
    for (size_t p = 0; p < PART_COUNT; p++) {
        double most = 0;
        for (size_t r = 0; r < count; r++) {
            double own = real(orr_tree_get(orr_tree_at(ranks, r), "parts"), parts[p].key);
            most = own > most ? own : most;
        }
        if (most > 0) {
            orr_page_repeat(page, parts[p].wide, parts[p].letter, 1);
            orr_page_add(page, " %s %s  ", parts[p].label, orr_page_bytes(page, most));
        }
    }
    orr_page_add(page, "(largest of any rank)  | usable %s\n", orr_page_bytes(page, capacity));
}

static void add_gpus(orr_page *page, const orr_tree *map) {
    const orr_tree *gpus = orr_tree_get(map, "fits_from_gpus");
    if (gpus != NULL) {
        orr_page_add(page, "  The same split fits from %lld GPUs on, with a batch of %lld.\n",
                     (long long)orr_tree_int(gpus, 0),
                     (long long)orr_tree_int(orr_tree_get(map, "with_gbs"), 0));
    } else if (text(map, "never")[0] != '\0') {
        orr_page_add(page, "  Never by GPUs alone: %s.\n", text(map, "never"));
    }
}

static void add_advice(orr_page *page, const orr_tree *advice) {
    const orr_tree *changes = orr_tree_get(advice, "changes");
    if (advice == NULL) {
        return;
    }
    orr_page_heading(page, "Single changes that free memory");
    for (size_t i = 0; i < orr_tree_size(changes); i++) {
        const orr_tree *one = orr_tree_at(changes, i);
        bool fits = orr_tree_bool(orr_tree_get(one, "fits"), false);
        char setting[64];
        (void)snprintf(setting, sizeof setting, "%s=%s", text(one, "key"), text(one, "value"));
        orr_page_ink(page, fits ? INK_GOOD : INK_DIM);
        orr_page_add(page, "  %s ", fits ? "fits      " : "not enough");
        orr_page_ink(page, INK_PLAIN);
        orr_page_cell(page, setting, 30);
        orr_page_add(page, " frees %10s   throughput %+.1f %%\n",
                     orr_page_bytes(page, real(one, "frees_bytes")),
                     100 * real(one, "throughput_change_frac"));
    }
    if (orr_tree_size(changes) == 0) {
        orr_page_add(page, "  none was found\n");
    }
    const orr_tree *pairs = orr_tree_get(advice, "pairs");
    for (size_t i = 0; i < orr_tree_size(pairs); i++) {
        const orr_tree *one = orr_tree_at(pairs, i);
        orr_page_add(page, "  fits with both ");
        orr_page_cell(page, text(one, "changes"), 44);
        orr_page_add(page, " throughput %+.1f %%\n", 100 * real(one, "throughput_change_frac"));
    }
    add_gpus(page, advice);
}

static void add_ledger(orr_page *page, const orr_tree *ledger) {
    if (ledger == NULL) {
        return;
    }
    const orr_tree *rows = orr_tree_get(ledger, "rows");
    orr_page_heading(page, orr_arena_format(page->arena, "Every byte of rank %lld at %s: %s",
                                            (long long)real(ledger, "rank"), text(ledger, "moment"),
                                            orr_page_bytes(page, real(ledger, "total_bytes"))));
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        const orr_tree *chunk = orr_tree_get(row, "chunk");
        orr_page_add(page, "  ");
        orr_page_cell(page, text(row, "part"), 12);
        orr_page_cell(page, text(row, "what"), 34);
        orr_page_add(page, "%14.0f B", real(row, "bytes"));
        orr_page_add(page, " x %-8g", real(row, "count"));
        if (chunk != NULL) {
            orr_page_add(page, " chunk %lld", (long long)orr_tree_int(chunk, 0));
        }
        orr_page_add(page, "\n");
    }
}

/* A digit a column: tenths of the usable bytes that the fullest op of the column takes. */
static void add_timelines(orr_page *page, const orr_tree *list, double usable_bytes) {
    if (orr_tree_size(list) == 0 || usable_bytes <= 0) {
        return;
    }
    orr_page_heading(page, "Bytes along the step, in tenths of what is usable (X: beyond)");
    for (size_t r = 0; r < orr_tree_size(list); r++) {
        const orr_tree *points = orr_tree_get(orr_tree_at(list, r), "points");
        size_t count = orr_tree_size(points), columns = count < 100 ? count : 100;
        orr_page_add(page, "  %3lld ", (long long)real(orr_tree_at(list, r), "rank"));
        double most = 0;
        for (size_t c = 0; c < columns; c++) {
            double peak = 0;
            for (size_t i = c * count / columns; i < (c + 1) * count / columns; i++) {
                double bytes = real(orr_tree_at(points, i), "peak_bytes");
                peak = bytes > peak ? bytes : peak;
            }
            int tenths = (int)(10 * peak / usable_bytes);
            orr_page_add(page, "%c", tenths > 9 ? 'X' : (char)('0' + tenths));
            most = peak > most ? peak : most;
        }
        orr_page_add(page, "  %s\n", orr_page_bytes(page, most));
    }
}

static void add_replay(orr_page *page, const orr_tree *replay) {
    if (replay == NULL) {
        return;
    }
    orr_page_heading(page, orr_arena_format(page->arena, "Allocations of rank %lld, replayed",
                                            (long long)real(replay, "rank")));
    static const char *const lines[][2] = {
        {"allocated_bytes", "allocated, at most"},
        {"reserved_bytes", "reserved by the allocator"},
        {"expandable_reserved_bytes", "reserved with expandable segments"},
        {"first_step_bytes", "allocated in the first step, before the moments exist"},
        {"checkpoint_save_bytes", "allocated while a checkpoint is saved (assumed)"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        orr_page_add(page, "  %12s  %s\n", orr_page_bytes(page, real(replay, lines[i][0])),
                     lines[i][1]);
    }
    if (!orr_tree_bool(orr_tree_get(replay, "complete"), true)) {
        orr_page_add(page, "  the replay was cut: it does not fit, or is too long\n");
    }
}

/* ---- pages ---------------------------------------------------------------------------------- */

void orr_render_project(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    render_inputs(page, envelope);
    orr_render_verdict(page, orr_tree_path(envelope, "result.verdict"),
                       orr_tree_path(envelope, "result.memory"));
    if (orr_tree_get(result, "step_time_s") != NULL) {
        add_headline(page, result);
        add_anchor(page, orr_tree_get(result, "anchor"));
        add_waterfall(page, result);
        add_provenance(page, result);
        if (page->options.verbose) {
            orr_render_waterfall(page, orr_tree_get(result, "waterfall"));
        }
        orr_render_against(page, orr_tree_get(result, "against"));
        orr_render_training(page, orr_tree_get(result, "training"));
        orr_render_evidence(page, orr_tree_get(result, "evidence"));
        render_memory_bars(page, orr_tree_get(result, "memory"));
        add_advice(page, orr_tree_get(result, "advice"));
    }
    orr_render_assumptions(page, envelope);
}

/* What `check` found beside rules; what it warned of stands on stderr. */
static void add_findings(orr_page *page, const orr_tree *list) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        if (strcmp(text(one, "level"), "slow") == 0) {
            orr_page_add(page, "  slow [%s] %s\n", text(one, "id"), text(one, "message"));
        }
    }
}

void orr_render_memory(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    render_inputs(page, envelope);
    orr_render_verdict(page, orr_tree_path(envelope, "result.verdict"),
                       orr_tree_path(envelope, "result.memory"));
    orr_render_against(page, orr_tree_get(result, "against"));
    add_findings(page, orr_tree_get(result, "findings"));
    render_memory_bars(page, orr_tree_get(result, "memory"));
    add_advice(page, orr_tree_get(result, "advice"));
    add_ledger(page, orr_tree_get(result, "ledger"));
    for (size_t i = 0; i < orr_tree_size(orr_tree_get(result, "ledgers")); i++) {
        add_ledger(page, orr_tree_at(orr_tree_get(result, "ledgers"), i));
    }
    add_timelines(page, orr_tree_get(result, "timeline"),
                  real(orr_tree_get(result, "memory"), "capacity_bytes"));
    add_replay(page, orr_tree_get(result, "replay"));
    if (orr_tree_get(result, "min_gpus") != NULL) {
        orr_page_heading(page, "Fewest GPUs");
        add_gpus(page, orr_tree_get(result, "min_gpus"));
    }
    orr_render_assumptions(page, envelope);
}
