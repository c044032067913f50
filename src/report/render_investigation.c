/* What a language model added to a search, for people. */
#include <string.h>

#include "report/report_int.h"

static double real(const orr_tree *map, const char *path) {
    return orr_tree_real(orr_tree_path(map, path), 0);
}

static long long whole(const orr_tree *map, const char *path) {
    return (long long)orr_tree_int(orr_tree_path(map, path), 0);
}

static void add_fairness(orr_page *page, const orr_tree *fairness) {
    const orr_tree *rows = orr_tree_get(fairness, "rows");
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        orr_page_add(page, "  ");
        orr_page_cell(page, orr_tree_text(orr_tree_get(row, "method"), ""), 18);
        orr_page_add(page, "%10.1f tokens/s/GPU  regret %5.1f %%  %lld evaluations\n",
                     real(row, "best"), 100 * real(row, "regret_frac"), whole(row, "evaluations"));
    }
    if (fairness != NULL) {
        orr_page_add(page, "  %s\n", orr_tree_text(orr_tree_get(fairness, "verdict"), ""));
    }
}

static void add_measurements(orr_page *page, const orr_tree *list) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *row = orr_tree_at(list, i);
        bool run = orr_tree_bool(orr_tree_get(row, "run"), false);
        orr_page_add(page, "  %s trial %lld: projected %.1f",
                     run ? "measured" : "to measure:", whole(row, "trial"), real(row, "projected"));
        if (run) {
            orr_page_add(page, ", measured %.1f", real(row, "measured"));
        }
        orr_page_add(page, "  (%s)\n", orr_tree_text(orr_tree_get(row, "why"), ""));
    }
}

void orr_render_doctor(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *checks = orr_tree_get(result, "checks");
    const orr_tree *quirks = orr_tree_get(result, "quirks");
    for (size_t i = 0; i < orr_tree_size(checks); i++) {
        const orr_tree *row = orr_tree_at(checks, i);
        bool good = orr_tree_bool(orr_tree_get(row, "good"), false);
        orr_page_ink(page, good ? INK_GOOD : INK_BAD);
        orr_page_cell(page, good ? "ok" : "no", 4);
        orr_page_ink(page, INK_PLAIN);
        orr_page_cell(page, orr_tree_text(orr_tree_get(row, "check"), ""), 28);
        orr_page_add(page, "%s\n", orr_tree_text(orr_tree_get(row, "said"), ""));
        if (!good) {
            orr_page_add(page, "    hint: %s\n", orr_tree_text(orr_tree_get(row, "hint"), ""));
        }
    }
    orr_page_add(page,
                 "\nquirks of %s:", orr_tree_text(orr_tree_path(envelope, "inputs.provider"), ""));
    for (size_t i = 0; i < orr_tree_size(quirks); i++) {
        orr_page_add(page, " %s", orr_tree_text(orr_tree_at(quirks, i), ""));
    }
    orr_page_add(page, "%s\n", orr_tree_size(quirks) == 0 ? " none known" : "");
    if (orr_tree_bool(orr_tree_get(result, "usable"), false)) {
        orr_page_add(page, "usable, with --llm-calls %s\n",
                     orr_tree_text(orr_tree_get(result, "llm_calls"), ""));
    } else {
        orr_page_add(page, "not usable: %s\n", orr_tree_text(orr_tree_get(result, "why"), ""));
    }
}

void orr_render_investigation(orr_page *page, const orr_tree *result) {
    const orr_tree *run = orr_tree_get(result, "investigation");
    if (run == NULL) {
        return;
    }
    orr_page_heading(page, "What the language model added");
    orr_page_add(page,
                 "  %s; ended: %s; %lld requests, %lld tool calls (%lld refused), %lld plans "
                 "tried\n",
                 orr_tree_text(orr_tree_get(run, "model"), ""),
                 orr_tree_text(orr_tree_get(run, "stopped"), ""), whole(run, "spent.requests"),
                 whole(run, "spent.tool_calls"), whole(run, "spent.refused_calls"),
                 whole(run, "spent.evaluations"));
    orr_page_add(page, "  chosen by %s: %.1f tokens/s/GPU\n",
                 orr_tree_text(orr_tree_path(result, "chosen.by"), ""),
                 real(result, "chosen.tokens_per_s_per_gpu"));
    const char *rationale = orr_tree_text(orr_tree_get(run, "rationale"), "");
    if (rationale[0] != '\0') {
        orr_page_add(page, "  it says: %s\n", rationale);
    }
    add_measurements(page, orr_tree_get(run, "measurements"));
    add_fairness(page, orr_tree_get(run, "fairness"));
}
