/* A plan in a framework's words: text to be pasted, or lines to change; and what was understood of
 * a file in them. */
#include <string.h>

#include "doc/doc.h"
#include "report/report_int.h"

static const char *text(const orr_tree *node, const char *key) {
    return orr_tree_text(orr_tree_get(node, key), "");
}

/* Lines behind "# ". */
static void add_comment(orr_page *page, const char *title, const char *lines) {
    if (lines[0] == '\0') {
        return;
    }
    orr_page_add(page, "\n# %s\n", title);
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        orr_page_add(page, "#   %.*s\n", (int)length, lines);
        lines += length + (lines[length] != '\0');
    }
}

static void add_script(orr_page *page, const orr_tree *result) {
    const char *launcher = text(result, "launcher"), *lines = text(result, "text");
    orr_page_add(page, "%s pretrain_gpt.py", launcher[0] != '\0' ? launcher : "torchrun");
    while (*lines != '\0') {
        size_t length = strcspn(lines, "\n");
        orr_page_add(page, " \\\n    %.*s", (int)length, lines);
        lines += length + (lines[length] != '\0');
    }
    orr_page_add(page, "\n");
}

static void add_edit(orr_page *page, const char *mark, const char *line, orr_ink ink) {
    if (line[0] != '\0') {
        orr_page_ink(page, ink);
        orr_page_add(page, "      %s %s", mark, line);
        orr_page_ink(page, INK_PLAIN);
        orr_page_add(page, "\n");
    }
}

static void add_changes(orr_page *page, const orr_tree *result) {
    const orr_tree *list = orr_tree_get(result, "changes");
    const char *file = text(result, "against");
    size_t count = orr_tree_size(list);
    if (count == 0) {
        orr_page_add(page, "%s says this plan already: nothing to change\n", file);
        return;
    }
    orr_page_add(page, "%s: %zu change%s\n", file, count, count == 1 ? "" : "s");
    long long last = 0;
    for (size_t i = 0; i < count; i++) {
        const orr_tree *one = orr_tree_at(list, i);
        long long line = (long long)orr_tree_int(orr_tree_get(one, "line"), 0);
        if (line > 0 && line != last) {
            orr_page_add(page, "%5lld   %s\n", line, text(one, "was"));
        }
        if (line == 0 && last != -1) {
            orr_page_add(page, "  new   settings to add\n");
        }
        last = line == 0 ? -1 : line;
        add_edit(page, "-", text(one, "before"), INK_BAD);
        add_edit(page, "+", text(one, "now"), INK_GOOD);
    }
}

void orr_render_export(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    const char *format = text(result, "format");
    if (orr_tree_get(result, "changes") != NULL) {
        add_changes(page, result);
        return;
    }
    if (strcmp(format, "megatron-lm") == 0) {
        add_script(page, result);
        return;
    }
    orr_page_add(page, "%s", text(result, "text"));
    add_comment(page, "the same on the command line:", text(result, "overrides"));
    add_comment(page, "the same by environment, where the file reads it:", text(result, "env"));
}

/* ---- import --------------------------------------------------------------------------------- */

static const char *shown(orr_page *page, const orr_tree *value) {
    orr_text out = orr_text_new(page->arena, 4096);
    const char *plain = orr_tree_text(value, NULL);
    if (plain != NULL) {
        return plain;
    }
    if (orr_tree_kind_of(value) == ORR_TREE_MAP || orr_tree_kind_of(value) == ORR_TREE_LIST) {
        const char *name = orr_tree_text(orr_tree_get(value, "name"), NULL);
        long long layers = (long long)orr_tree_int(orr_tree_get(value, "layers"), 0);
        long long hidden = (long long)orr_tree_int(orr_tree_get(value, "hidden"), 0);
        if (layers > 0 && hidden > 0) {
            orr_text_format(&out, "%s: %lld layers of %lld", name != NULL ? name : "its own",
                            layers, hidden);
            return orr_text_done(&out);
        }
    }
    orr_json_write(&out, value, false);
    return orr_text_done(&out);
}

static void add_plan(orr_page *page, const orr_tree *plan) {
    for (size_t i = 0; i < orr_tree_size(plan); i++) {
        const orr_tree *value = orr_tree_at(plan, i);
        long long line = (long long)orr_tree_span(value).line;
        orr_page_add(page, "  ");
        orr_page_cell(page, orr_tree_key(plan, i), 18);
        if (line > 0) {
            orr_page_cell(page, shown(page, value), 46);
            orr_page_ink(page, INK_DIM);
            orr_page_add(page, " line %lld", line);
            orr_page_ink(page, INK_PLAIN);
            orr_page_add(page, "\n");
        } else {
            orr_page_add(page, "%s\n", shown(page, value));
        }
    }
}

static void add_assumed(orr_page *page, const orr_tree *list) {
    if (orr_tree_size(list) > 0) {
        orr_page_heading(page, "Assumed, since the file does not say");
    }
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_page_add(page, "  %s = %s: %s\n", text(one, "key"), text(one, "value"),
                     text(one, "why"));
    }
}

/* Names that were not understood; what may matter is a warning too, and stands first. */
static void add_unknown(orr_page *page, const orr_tree *list) {
    if (orr_tree_size(list) > 0) {
        orr_page_heading(page, "Not understood, or not modelled");
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            const orr_tree *one = orr_tree_at(list, i);
            bool matters = orr_tree_bool(orr_tree_get(one, "matters"), true);
            long long line = (long long)orr_tree_int(orr_tree_get(one, "line"), 0);
            if (matters != (pass == 0)) {
                continue;
            }
            orr_page_add(page, "  ");
            orr_page_ink(page, matters ? INK_WARN : INK_DIM);
            orr_page_add(page, "%s", text(one, "name"));
            orr_page_ink(page, INK_PLAIN);
            if (line > 0) {
                orr_page_add(page, " (line %lld)", line);
            }
            const char *why = text(one, "why");
            orr_page_add(page, ": %s%s\n", why[0] != '\0' ? why : "nobody knows this name",
                         matters ? "" : "; by its name it changes neither speed nor memory");
        }
    }
}

void orr_render_import(orr_page *page, const orr_tree *envelope) {
    const orr_tree *result = orr_tree_get(envelope, "result");
    orr_page_ink(page, INK_STRONG);
    orr_page_add(page, "read as %s\n", text(result, "format"));
    orr_page_ink(page, INK_PLAIN);
    add_plan(page, orr_tree_get(result, "plan"));
    add_assumed(page, orr_tree_get(result, "assumed"));
    add_unknown(page, orr_tree_get(result, "unknown"));
}
