#include <math.h>
#include <string.h>

#include "doc/doc.h"
#include "report/report_int.h"

enum { PAGE_LIMIT_BYTES = 128 << 20 };

void orr_page_add(orr_page *page, const char *format, ...) {
    va_list args;
    va_start(args, format);
    orr_text_add(&page->text, orr_arena_vformat(page->arena, format, args));
    va_end(args);
}

void orr_page_ink(orr_page *page, orr_ink ink) {
    static const char *const codes[] = {
        [INK_PLAIN] = "\033[0m",  [INK_GOOD] = "\033[1;32m", [INK_WARN] = "\033[1;33m",
        [INK_BAD] = "\033[1;31m", [INK_DIM] = "\033[2m",     [INK_STRONG] = "\033[1m",
    };
    if (page->options.color) {
        orr_text_add(&page->text, codes[ink]);
    }
}

void orr_page_heading(orr_page *page, const char *title) {
    orr_text_add(&page->text, "\n");
    orr_page_ink(page, INK_STRONG);
    orr_text_add(&page->text, title);
    orr_page_ink(page, INK_PLAIN);
    orr_text_add(&page->text, "\n");
}

void orr_page_repeat(orr_page *page, const char *wide, char letter, uint32_t count) {
    char small[2] = {letter, '\0'};
    for (uint32_t i = 0; i < count; i++) {
        orr_text_add(&page->text, page->options.ascii ? small : wide);
    }
}

void orr_page_bar(orr_page *page, double share, uint32_t cells) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double clipped = share < 0 ? 0 : share > 1 ? 1 : share;
    uint32_t filled = (uint32_t)floor(clipped * cells * 8 + 0.5);
    uint32_t whole = filled / 8, rest = filled % 8;
    orr_page_repeat(page, "█", '#', whole);
    if (page->options.ascii) {
        rest = 0;
    } else {
        orr_text_add(&page->text, eighths[rest]);
    }
    for (uint32_t i = whole + (rest > 0 ? 1 : 0); i < cells; i++) {
        orr_text_add(&page->text, " ");
    }
}

/* Columns of UTF-8 text, one a code point: names here are plain. */
static uint32_t columns_of(const char *text) {
    uint32_t columns = 0;
    for (; *text != '\0'; text++) {
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return columns;
}

void orr_page_cell(orr_page *page, const char *text, uint32_t columns) {
    uint32_t width = columns_of(text), taken = 0;
    for (const char *p = text; *p != '\0'; p++) {
        bool starts = ((unsigned char)*p & 0xC0) != 0x80;
        if (starts && taken + (width > columns ? 1 : 0) >= columns) {
            break;
        }
        taken += starts;
        orr_text_addn(&page->text, p, 1);
    }
    if (width > columns) {
        orr_text_add(&page->text, page->options.ascii ? "~" : "…");
        taken++;
    }
    for (; taken < columns; taken++) {
        orr_text_add(&page->text, " ");
    }
}

const char *orr_page_seconds(orr_page *page, double value_s) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    double size = fabs(value_s);
    for (size_t i = 0; i < 4; i++) {
        if (size >= units[i].unit || i == 3) {
            double shown = value_s / units[i].unit;
            int digits = fabs(shown) >= 100 ? 0 : fabs(shown) >= 10 ? 1 : 2;
            return size == 0
                       ? "0 s"
                       : orr_arena_format(page->arena, "%.*f %s", digits, shown, units[i].name);
        }
    }
    return "";
}

const char *orr_page_bytes(orr_page *page, double bytes) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    int digits = unit == 0 ? 0 : fabs(bytes) >= 100 ? 1 : 2;
    return orr_arena_format(page->arena, "%.*f %s", digits, bytes, names[unit]);
}

const char *orr_page_count(orr_page *page, double value) {
    if (fabs(value) < 1e5) {
        /* Thousands are set apart: 10,080. */
        char digits[32];
        int decimals = fabs(value) < 100 ? 2 : fabs(value) < 1000 ? 1 : 0;
        double scale = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
        double rounded = floor(value * scale + 0.5) / scale;
        (void)snprintf(digits, sizeof digits, "%.*f", decimals, rounded);
        size_t length = strlen(digits);
        return decimals > 0 || length <= 3
                   ? orr_arena_text(page->arena, digits)
                   : orr_arena_format(page->arena, "%.*s,%s", (int)length - 3, digits,
                                      digits + length - 3);
    }
    static const char *const names[] = {"k", "M", "G", "T", "P"};
    size_t unit = 0;
    value /= 1000;
    while (fabs(value) >= 1000 && unit < 4) {
        value /= 1000;
        unit++;
    }
    return orr_arena_format(page->arena, "%.1f%s", value, names[unit]);
}

/* Cells and bars fill their columns; at the end of a line nobody sees that. In place. */
static char *without_trailing_blanks(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        while (*from == '\n' && to > text && to[-1] == ' ') {
            to--;
        }
        *to++ = *from;
    }
    *to = '\0';
    return text;
}

static const char *last_word(const char *schema) {
    const char *dot = strrchr(schema, '.');
    return dot == NULL ? schema : dot;
}

char *orr_report_text(orr_arena *arena, const orr_tree *envelope,
                      const orr_report_options *options) {
    orr_page page = {.text = orr_text_new(arena, PAGE_LIMIT_BYTES), .arena = arena};
    page.options = *options;
    if (page.options.width == 0) {
        page.options.width = 100;
    }
    const char *schema = orr_tree_text(orr_tree_get(envelope, "schema"), "");
    if (strcmp(schema, "orrery.measure/1") == 0) {
        orr_render_measure(&page, envelope);
    } else if (strcmp(schema, "orrery.project/1") == 0) {
        orr_render_project(&page, envelope);
    } else if (strcmp(schema, "orrery.explain/1") == 0) {
        orr_render_explain(&page, envelope);
    } else if (strcmp(schema, "orrery.memory/1") == 0 || strcmp(schema, "orrery.check/1") == 0) {
        orr_render_memory(&page, envelope);
    } else if (strcmp(schema, "orrery.validate/1") == 0) {
        orr_render_validate(&page, envelope);
    } else if (strcmp(schema, "orrery.schema/1") == 0) { /* is JSON for whoever reads it */
        orr_json_write(&page.text, orr_tree_get(envelope, "result"), true);
        orr_text_add(&page.text, "\n");
    } else if (strcmp(schema, "orrery.import/1") == 0 &&
               orr_tree_path(envelope, "result.kind") == NULL) { /* a log has one */
        orr_render_import(&page, envelope);
    } else if (strcmp(schema, "orrery.export/1") == 0) {
        orr_render_export(&page, envelope);
    } else if (strcmp(schema, "orrery.rules/1") == 0) {
        orr_render_rules(&page, envelope);
    } else if (strcmp(schema, "orrery.tune/1") == 0) {
        orr_render_tune(&page, envelope);
    } else if (strcmp(schema, "orrery.evaluate/1") == 0) {
        orr_render_evaluate(&page, envelope);
    } else if (strcmp(schema, "orrery.neighbors/1") == 0) {
        orr_render_neighbors(&page, envelope);
    } else if (strcmp(schema, "orrery.compare/1") == 0) {
        orr_render_compare(&page, envelope);
    } else if (strcmp(schema, "orrery.sensitivity/1") == 0) {
        orr_render_sensitivity(&page, envelope);
    } else if (strcmp(schema, "orrery.next/1") == 0) {
        orr_render_next(&page, envelope);
    } else if (strcmp(schema, "orrery.cost/1") == 0) {
        orr_render_cost(&page, envelope);
    } else if (strcmp(schema, "orrery.llm.doctor/1") == 0) {
        orr_render_doctor(&page, envelope);
    } else if (strcmp(schema, "orrery.schedule/1") == 0) {
        orr_render_schedule(&page, envelope);
    } else if (strcmp(last_word(schema), ".list/1") == 0) {
        orr_render_list(&page, envelope);
    } else {
        orr_render_tree(&page, orr_tree_get(envelope, "result"), 0);
    }
    return without_trailing_blanks(orr_text_done(&page.text));
}
