/* Anything else: an indented listing, and tables of catalogs. */
#include <string.h>

#include "report/report_int.h"

static void add_scalar(orr_page *page, const orr_tree *node) {
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_NULL: orr_page_add(page, "-"); break;
    case ORR_TREE_BOOL: orr_page_add(page, "%s", orr_tree_bool(node, false) ? "yes" : "no"); break;
    case ORR_TREE_INT: orr_page_add(page, "%lld", (long long)orr_tree_int(node, 0)); break;
    case ORR_TREE_REAL: {
        char number[32];
        orr_format_real(orr_tree_real(node, 0), number);
        orr_page_add(page, "%s", number);
        break;
    }
    case ORR_TREE_TEXT: orr_page_add(page, "%s", orr_tree_text(node, "")); break;
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
}

static bool is_scalar(const orr_tree *node) {
    orr_tree_kind kind = orr_tree_kind_of(node);
    return kind != ORR_TREE_LIST && kind != ORR_TREE_MAP;
}

void orr_render_tree(orr_page *page, const orr_tree *node, uint32_t indent) {
    bool map = orr_tree_kind_of(node) == ORR_TREE_MAP;
    for (size_t i = 0; i < orr_tree_size(node); i++) {
        const orr_tree *child = orr_tree_at(node, i);
        orr_page_add(page, "%*s", (int)indent, "");
        if (map) {
            orr_page_cell(page, orr_tree_key(node, i), is_scalar(child) ? 28 : 60);
        } else {
            orr_page_add(page, "- ");
        }
        if (is_scalar(child)) {
            orr_page_add(page, " ");
            add_scalar(page, child);
            orr_page_add(page, "\n");
        } else {
            orr_page_add(page, "\n");
            orr_render_tree(page, child, indent + 2);
        }
    }
}

/* Names with the fields that tell entries apart. */
void orr_render_list(orr_page *page, const orr_tree *envelope) {
    const orr_tree *entries = orr_tree_path(envelope, "result.entries");
    static const char *const details[] = {"title",  "parameters_total", "layers",
                                          "hidden", "source",           "assumed"};
    for (size_t i = 0; i < orr_tree_size(entries); i++) {
        const orr_tree *entry = orr_tree_at(entries, i);
        orr_page_cell(page, orr_tree_text(orr_tree_get(entry, "name"), "?"), 28);
        for (size_t d = 0; d < sizeof details / sizeof *details; d++) {
            const orr_tree *value = orr_tree_get(entry, details[d]);
            if (value == NULL) {
                continue;
            }
            orr_page_add(page, "  ");
            if (strcmp(details[d], "parameters_total") == 0) {
                orr_page_add(page, "%8s parameters", orr_page_count(page, orr_tree_real(value, 0)));
            } else if (strcmp(details[d], "layers") == 0 || strcmp(details[d], "hidden") == 0) {
                orr_page_add(page, "%s %lld", details[d], (long long)orr_tree_int(value, 0));
            } else if (strcmp(details[d], "assumed") == 0) {
                orr_page_add(page, "%s", orr_tree_bool(value, false) ? "assumed" : "");
            } else {
                orr_page_add(page, "%s", orr_tree_text(value, ""));
            }
        }
        orr_page_add(page, "\n");
    }
}

void orr_render_rules(orr_page *page, const orr_tree *envelope) {
    const orr_tree *rules = orr_tree_path(envelope, "result.rules");
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const orr_tree *rule = orr_tree_at(rules, i);
        const char *effect = orr_tree_text(orr_tree_get(rule, "effect"), "");
        orr_page_cell(page, orr_tree_text(orr_tree_get(rule, "id"), ""), 28);
        orr_page_cell(page, strcmp(effect, "does_not_start") == 0 ? "does not start" : effect, 16);
        orr_page_add(page, "%s\n", orr_tree_text(orr_tree_get(rule, "summary"), ""));
    }
}
