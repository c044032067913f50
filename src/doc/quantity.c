/* Text with a unit to a number in base units: "80GiB", "3.35 TB/s", "12us", "989TFLOP/s".
 *
 * Which words are allowed depends on the field, so that seconds given for bytes are an error. A
 * decimal prefix is folded into the exponent before the digits are converted: 3.35T is then the
 * double nearest to 3.35e12, which a multiplication does not promise. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doc/doc_int.h"

enum { DECIMAL = 1, BINARY = 2, SMALL = 4 };

typedef struct prefix {
    const char *text;
    int ten, two; /* exponents */
    unsigned kind;
} prefix;

static const prefix prefixes[] = {
    {"", 0, 0, DECIMAL | BINARY | SMALL},
    {"k", 3, 0, DECIMAL},
    {"K", 3, 0, DECIMAL},
    {"M", 6, 0, DECIMAL},
    {"G", 9, 0, DECIMAL},
    {"T", 12, 0, DECIMAL},
    {"P", 15, 0, DECIMAL},
    {"E", 18, 0, DECIMAL},
    {"Ki", 0, 10, BINARY},
    {"Mi", 0, 20, BINARY},
    {"Gi", 0, 30, BINARY},
    {"Ti", 0, 40, BINARY},
    {"Pi", 0, 50, BINARY},
    {"m", -3, 0, SMALL},
    {"u", -6, 0, SMALL},
    {"\xc2\xb5", -6, 0, SMALL}, /* micro sign */
    {"\xce\xbc", -6, 0, SMALL}, /* mu */
    {"n", -9, 0, SMALL},
    {"p", -12, 0, SMALL},
};

typedef struct word {
    const char *unit; /* of the field; NULL: any */
    const char *text;
    int ten; /* exponent of ten in base units, then times factor */
    double factor;
    unsigned prefixes;
} word;

static const word words[] = {
    {NULL, "", 0, 1, DECIMAL | BINARY},
    {"bytes", "B", 0, 1, DECIMAL | BINARY},
    {"bytes", "byte", 0, 1, DECIMAL | BINARY},
    {"bytes", "bytes", 0, 1, DECIMAL | BINARY},
    {"bytes", "b", 0, 0.125, DECIMAL | BINARY},
    {"bytes", "bit", 0, 0.125, DECIMAL | BINARY},
    {"bytes", "bits", 0, 0.125, DECIMAL | BINARY},
    {"bytes/s", "B/s", 0, 1, DECIMAL | BINARY},
    {"bytes/s", "Bps", 0, 1, DECIMAL | BINARY},
    {"bytes/s", "bytes/s", 0, 1, DECIMAL | BINARY},
    {"bytes/s", "b/s", 0, 0.125, DECIMAL | BINARY},
    {"bytes/s", "bps", 0, 0.125, DECIMAL | BINARY},
    {"bytes/s", "bit/s", 0, 0.125, DECIMAL | BINARY},
    {"s", "s", 0, 1, SMALL},
    {"s", "sec", 0, 1, SMALL},
    {"s", "min", 0, 60, 0},
    {"s", "h", 0, 3600, 0},
    {"s", "d", 0, 86400, 0},
    {"flop", "FLOP", 0, 1, DECIMAL},
    {"flop", "flop", 0, 1, DECIMAL},
    {"flop", "FLOPs", 0, 1, DECIMAL},
    {"flop/s", "FLOP/s", 0, 1, DECIMAL},
    {"flop/s", "flop/s", 0, 1, DECIMAL},
    {"flop/s", "FLOPS", 0, 1, DECIMAL},
    {"flop/s", "FLOPs", 0, 1, DECIMAL},
    {"flop/s", "OP/s", 0, 1, DECIMAL},
    {"flop/s", "OPS", 0, 1, DECIMAL},
    {"tokens", "tok", 0, 1, DECIMAL},
    {"tokens", "token", 0, 1, DECIMAL},
    {"tokens", "tokens", 0, 1, DECIMAL},
    {"tokens", "B", 9, 1, 0}, /* billion, as people write it */
    {"tokens/s", "tok/s", 0, 1, DECIMAL},
    {"tokens/s", "tokens/s", 0, 1, DECIMAL},
    {"parameters", "B", 9, 1, 0},
    {"parameters", "parameters", 0, 1, DECIMAL},
    {"W", "W", 0, 1, DECIMAL | SMALL},
    {"Hz", "Hz", 0, 1, DECIMAL},
};

static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

/* Splits a decimal number into digits and exponent; returns what follows it, NULL if there is none.
 */
static const char *split_number(const char *text, size_t *digits, int *exponent) {
    const char *p = text + (*text == '+' || *text == '-');
    size_t before = count_digits(p), after = 0;
    p += before;
    if (*p == '.') {
        after = count_digits(p + 1);
        p += 1 + after;
    }
    if (before + after == 0) {
        return NULL;
    }
    *digits = (size_t)(p - text);
    *exponent = 0;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        bool negative = *q == '-';
        q += *q == '+' || *q == '-';
        size_t count = count_digits(q);
        if (count > 0) { /* else the E is a prefix */
            for (size_t i = 0; i < count && *exponent < 10000; i++) {
                *exponent = *exponent * 10 + (q[i] - '0');
            }
            *exponent = negative ? -*exponent : *exponent;
            p = q + count;
        }
    }
    return p;
}

static const word *find_word(const char *text, const char *unit, unsigned kind) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const word *w = &words[i];
        bool applies = w->unit == NULL || (unit != NULL && strcmp(w->unit, unit) == 0);
        if (applies && (w->prefixes & kind || kind == (DECIMAL | BINARY | SMALL)) &&
            strcmp(w->text, text) == 0) {
            return w;
        }
    }
    return NULL;
}

/* The prefix and word of what follows the number; an unprefixed word is preferred. */
static bool find_suffix(const char *text, const char *unit, const prefix **p, const word **w) {
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i].text);
        if (strncmp(text, prefixes[i].text, length) == 0) {
            *p = &prefixes[i];
            *w = find_word(text + length, unit, prefixes[i].kind);
            if (*w != NULL) {
                return true;
            }
        }
    }
    *p = &prefixes[0];
    *w = &words[0];
    return unit != NULL && strcmp(text, unit) == 0; /* whatever the unit, its own name is one */
}

bool orr_quantity_parse(const char *text, const char *unit, double *out) {
    char number[64];
    size_t digits;
    int exponent;
    const char *suffix = split_number(text, &digits, &exponent);
    if (suffix == NULL || digits + 12 > sizeof number) {
        return false;
    }
    suffix += strspn(suffix, " ");
    const prefix *p;
    const word *w;
    if (!find_suffix(suffix, unit, &p, &w)) {
        return false;
    }
    (void)snprintf(number, sizeof number, "%.*se%d", (int)digits, text, exponent + p->ten + w->ten);
    double value;
    if (!orr_parse_real(number, &value)) {
        return false;
    }
    *out = ldexp(value, p->two) * w->factor;
    return isfinite(*out);
}
