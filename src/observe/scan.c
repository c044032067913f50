/* Numbers in text of unknown make. */
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "observe/observe_int.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool orr_holds(const char *text, size_t length, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= length; i++) {
        if (text[i] == *word && memcmp(text + i, word, n) == 0) {
            return true;
        }
    }
    return false;
}

bool orr_scan_number(const char *text, double *value, const char **end) {
    char digits[48];
    size_t n = 0;
    const char *p = text;
    if (*p == '-' || *p == '+') {
        digits[n++] = *p++;
    }
    if (!is_digit(*p)) {
        return false;
    }
    bool point = false;
    for (; n + 8 < sizeof digits; p++) {
        bool comma = *p == ',' && !point && is_digit(p[1]) && is_digit(p[2]) && is_digit(p[3]) &&
                     !is_digit(p[4]);
        if (*p == '.' && !point && is_digit(p[1])) {
            point = true;
            digits[n++] = *p;
        } else if (is_digit(*p)) {
            digits[n++] = *p;
        } else if (!comma) {
            break;
        }
    }
    const char *q = p + 1 + (*p != '\0' && (p[1] == '-' || p[1] == '+'));
    if ((*p == 'e' || *p == 'E') && is_digit(*q)) {
        digits[n++] = 'e';
        digits[n++] = p[1] == '-' ? '-' : '+';
        for (p = q; is_digit(*p) && n + 1 < sizeof digits; p++) {
            digits[n++] = *p;
        }
    }
    digits[n] = '\0';
    *end = p;
    return orr_parse_real(digits, value);
}

const char *orr_scan_after(const char *text, const char *label, double *value) {
    size_t length = strlen(label);
    for (const char *p = text; (p = strstr(p, label)) != NULL; p += length) {
        const char *after = p + length + strspn(p + length, " \t:=");
        const char *end;
        bool apart = p == text || !((p[-1] >= 'a' && p[-1] <= 'z') || p[-1] == '_');
        if (apart && orr_scan_number(after, value, &end)) {
            return end;
        }
    }
    return NULL;
}

double orr_scan_bytes(const char *end, double value, double unit) {
    static const struct {
        const char *word;
        double bytes;
    } units[] = {
        {"GiB", ORR_GIB}, {"GB", ORR_GIB}, {"MiB", ORR_MIB},        {"MB", ORR_MIB},
        {"KiB", ORR_KIB}, {"KB", ORR_KIB}, {"TiB", 1024 * ORR_GIB}, {"bytes", 1},
    };
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strncmp(end, units[i].word, strlen(units[i].word)) == 0) {
            return value * units[i].bytes;
        }
    }
    return value * unit;
}

void orr_put_nonzero(orr_arena *arena, orr_tree *map, const char *key, double value) {
    if (value != 0) {
        orr_tree_put_real(arena, map, key, value);
    }
}

void orr_observation_warn(orr_arena *arena, orr_observation *o, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)orr_tree_push(arena, o->warnings,
                        orr_tree_new_text(arena, orr_arena_vformat(arena, format, args)));
    va_end(args);
}

size_t orr_observe_words(char *line, char **word, size_t most) {
    size_t count = 0;
    for (char *p = line; *p != '\0' && count < most;) {
        p += strspn(p, " \t");
        if (*p != '\0') {
            word[count++] = p;
            p += strcspn(p, " \t");
            if (*p != '\0') {
                *p++ = '\0';
            }
        }
    }
    return count;
}
