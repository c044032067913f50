/* A plan in a framework's words: text to be pasted, or lines to change. */
#include <string.h>

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
