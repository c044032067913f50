#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

orr_text orr_text_new(orr_arena *arena, size_t limit) {
    return (orr_text){.arena = arena, .limit = limit};
}

static void reserve(orr_text *text, size_t extra) {
    size_t need = text->length + extra + 1;
    if (need <= text->capacity) {
        return;
    }
    size_t capacity = text->capacity < 128 ? 256 : text->capacity * 2;
    if (capacity < need) {
        capacity = need;
    }
    char *bigger = (char *)orr_arena_alloc(text->arena, capacity);
    if (text->length > 0) {
        memcpy(bigger, text->bytes, text->length);
    }
    text->bytes = bigger;
    text->capacity = capacity;
}

void orr_text_addn(orr_text *text, const char *bytes, size_t length) {
    if (length > text->limit - text->length) {
        length = text->limit - text->length;
        text->truncated = true;
    }
    reserve(text, length);
    if (length > 0) {
        memcpy(text->bytes + text->length, bytes, length);
    }
    text->length += length;
    text->bytes[text->length] = '\0';
}

void orr_text_add(orr_text *text, const char *bytes) {
    orr_text_addn(text, bytes, strlen(bytes));
}

void orr_text_format(orr_text *text, const char *format, ...) {
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    if (length >= 0 && (size_t)length < sizeof small) {
        orr_text_addn(text, small, (size_t)length);
    } else if (length >= 0) {
        orr_text_add(text, orr_arena_vformat(text->arena, format, again));
    }
    va_end(again);
    va_end(args);
}

char *orr_text_done(orr_text *text) {
    reserve(text, 0);
    text->bytes[text->length] = '\0';
    return text->bytes;
}

static bool is_separator(char c) {
    return c == '-' || c == '_' || c == '.' || c == ' ';
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool orr_name_equal(const char *a, const char *b) {
    for (;;) {
        while (is_separator(*a)) {
            a++;
        }
        while (is_separator(*b)) {
            b++;
        }
        if (lower(*a) != lower(*b)) {
            return false;
        }
        if (*a == '\0') {
            return true;
        }
        a++;
        b++;
    }
}

enum { NAME_MAX_BYTES = 64 };

/* Edit distance over letters and digits, without case; long names are compared by their start. */
static size_t name_distance(const char *a, const char *b) {
    char x[NAME_MAX_BYTES], y[NAME_MAX_BYTES];
    size_t row[NAME_MAX_BYTES + 1], nx = 0, ny = 0;
    for (; *a != '\0' && nx < NAME_MAX_BYTES; a++) {
        if (!is_separator(*a)) {
            x[nx++] = lower(*a);
        }
    }
    for (; *b != '\0' && ny < NAME_MAX_BYTES; b++) {
        if (!is_separator(*b)) {
            y[ny++] = lower(*b);
        }
    }
    for (size_t j = 0; j <= ny; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= nx; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= ny; j++) {
            size_t change = diagonal + (x[i - 1] == y[j - 1] ? 0u : 1u);
            size_t shift = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[ny];
}

int orr_name_nearest(const char *name, const char *const *names, size_t count) {
    size_t length = strnlen(name, NAME_MAX_BYTES);
    size_t best = length / 2 + 1; /* nothing in common is no suggestion */
    int nearest = -1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = name_distance(name, names[i]);
        if (distance < best) {
            best = distance;
            nearest = (int)i;
        }
    }
    return nearest;
}

bool orr_parse_int(const char *text, int64_t *out) {
    if (*text == '\0' || *text == ' ') {
        return false;
    }
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text) {
        return false;
    }
    *out = value;
    return true;
}

/* The library never calls setlocale, but its host may: digits are checked here, and a locale with
 * another decimal point makes strtod stop early, which the caller sees as a refusal. */
static const char *scan_real(const char *text, double *out) {
    const char *p = text;
    if (*p == '+' || *p == '-') {
        p++;
    }
    if (!((*p >= '0' && *p <= '9') || (*p == '.' && p[1] >= '0' && p[1] <= '9')) ||
        (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))) {
        return NULL;
    }
    char *end;
    double value = strtod(text, &end);
    if (!isfinite(value)) {
        return NULL;
    }
    *out = value;
    return end;
}

bool orr_parse_real(const char *text, double *out) {
    const char *end = scan_real(text, out);
    return end != NULL && *end == '\0';
}

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit units[] = {
    {"", 1},          {"k", 1e3},       {"K", 1e3},
    {"M", 1e6},       {"G", 1e9},       {"T", 1e12},
    {"P", 1e15},      {"B", 1},         {"kB", 1e3},
    {"KB", 1e3},      {"MB", 1e6},      {"GB", 1e9},
    {"TB", 1e12},     {"PB", 1e15},     {"KiB", ORR_KIB},
    {"MiB", ORR_MIB}, {"GiB", ORR_GIB}, {"TiB", 1024.0 * ORR_GIB},
    {"b", 0.125},     {"kb", 125},      {"Mb", 125e3},
    {"Gb", 125e6},    {"Tb", 125e9},    {"s", 1},
    {"ms", 1e-3},     {"us", 1e-6},     {"ns", 1e-9},
    {"ps", 1e-12},
};

bool orr_parse_quantity(const char *text, double *out) {
    double number;
    const char *end = scan_real(text, &number);
    if (end == NULL) {
        return false;
    }
    while (*end == ' ') {
        end++;
    }
    size_t length = strlen(end);
    if (length >= 2 && strcmp(end + length - 2, "/s") == 0) {
        length -= 2;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, end, length) == 0) {
            *out = number * units[i].factor;
            return isfinite(*out);
        }
    }
    return false;
}

void orr_format_real(double value, char out[32]) {
    if (value == floor(value) && fabs(value) < 9007199254740992.0) {
        (void)snprintf(out, 32, "%.0f", value == 0 ? 0.0 : value);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value) {
            return;
        }
    }
}
