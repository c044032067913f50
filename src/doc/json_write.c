/* The JSON writer.
 *
 * jansson's dumper is not used: it prints reals with a fixed number of digits (0.05 becomes
 * 0.050000000000000003 at 17, and 15 lose bits), it would need a second tree, and it cannot repair
 * text that is not UTF-8. This one prints our tree with the shortest digits that read back. */
#include <stdio.h>
#include <string.h>

#include "doc/doc_int.h"
#include "orrery/orrery.h"

static const size_t WRITE_LIMIT = (size_t)1 << 30;

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD, for what is not UTF-8 */

static void write_escape(orr_text *out, unsigned char c) {
    static const char short_names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof short_names; i += 2) {
        if ((unsigned char)short_names[i] == c) {
            char pair[2] = {'\\', short_names[i + 1]};
            orr_text_addn(out, pair, 2);
            return;
        }
    }
    orr_text_format(out, "\\u%04x", c);
}

static void write_text(orr_text *out, const char *text, size_t length) {
    orr_text_addn(out, "\"", 1);
    while (length > 0) {
        size_t good = orr_utf8_prefix(text, length);
        size_t start = 0;
        for (size_t i = 0; i < good; i++) {
            unsigned char c = (unsigned char)text[i];
            if (c < 0x20 || c == '"' || c == '\\') {
                orr_text_addn(out, text + start, i - start);
                write_escape(out, c);
                start = i + 1;
            }
        }
        orr_text_addn(out, text + start, good - start);
        if (good < length) {
            orr_text_addn(out, REPLACEMENT, sizeof REPLACEMENT - 1);
            good++;
        }
        text += good;
        length -= good;
    }
    orr_text_addn(out, "\"", 1);
}

static void write_break(orr_text *out, bool pretty, size_t depth) {
    static const char spaces[] = "                                ";
    if (!pretty) {
        return;
    }
    orr_text_addn(out, "\n", 1);
    for (size_t left = 2 * depth; left > 0;) {
        size_t part = left < sizeof spaces - 1 ? left : sizeof spaces - 1;
        orr_text_addn(out, spaces, part);
        left -= part;
    }
}

static void write_node(orr_text *out, const orr_tree *node, bool pretty, size_t depth);

static void write_children(orr_text *out, const orr_tree *node, bool pretty, size_t depth) {
    bool map = node->kind == ORR_TREE_MAP;
    orr_text_addn(out, map ? "{" : "[", 1);
    for (uint32_t i = 0; i < node->count; i++) {
        if (i > 0) {
            orr_text_addn(out, ",", 1);
        }
        write_break(out, pretty, depth + 1);
        if (map) {
            const char *key = node->as.map.entries[i].key;
            write_text(out, key, strlen(key));
            orr_text_add(out, pretty ? ": " : ":");
        }
        write_node(out, orr_tree_at(node, i), pretty, depth + 1);
    }
    if (node->count > 0) {
        write_break(out, pretty, depth);
    }
    orr_text_addn(out, map ? "}" : "]", 1);
}

static void write_node(orr_text *out, const orr_tree *node, bool pretty, size_t depth) {
    char number[32];
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_NULL: orr_text_add(out, "null"); break;
    case ORR_TREE_BOOL: orr_text_add(out, node->as.boolean ? "true" : "false"); break;
    case ORR_TREE_INT:
        (void)snprintf(number, sizeof number, "%lld", (long long)node->as.integer);
        orr_text_add(out, number);
        break;
    case ORR_TREE_REAL:
        orr_format_real(node->as.real, number);
        orr_text_add(out, number);
        break;
    case ORR_TREE_TEXT: write_text(out, node->as.text.bytes, node->as.text.length); break;
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: write_children(out, node, pretty, depth); break;
    }
}

void orr_json_write(orr_text *out, const orr_tree *node, bool pretty) {
    write_node(out, node, pretty, 0);
}

char *orr_write_json(orr_arena *arena, const orr_tree *node, bool pretty) {
    orr_text out = orr_text_new(arena, WRITE_LIMIT);
    orr_json_write(&out, node, pretty);
    return out.truncated ? NULL : orr_text_done(&out);
}
