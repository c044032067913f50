/* Python list expressions such as "([0]*1+[1]*3)*4", as layer patterns are written. */
#include "exchange/exchange_int.h"

typedef struct pattern {
    const char *p;
    uint8_t *out;
    size_t limit;
    int depth;
} pattern;

static bool sum(pattern *s, size_t *count);

static void spaces(pattern *s) {
    while (*s->p == ' ') {
        s->p++;
    }
}

static bool append(pattern *s, size_t *count, uint8_t value) {
    if (*count >= s->limit) {
        return false;
    }
    s->out[(*count)++] = value;
    return true;
}

static bool natural(pattern *s, size_t *value) {
    if (*s->p < '0' || *s->p > '9') {
        return false;
    }
    *value = 0;
    for (; *s->p >= '0' && *s->p <= '9'; s->p++) {
        *value = *value * 10 + (size_t)(*s->p - '0');
        if (*value > s->limit) {
            return false;
        }
    }
    return true;
}

/* [0,1,...] or ( sum ) */
static bool atom(pattern *s, size_t *count) {
    spaces(s);
    if (*s->p == '(') {
        s->p++;
        if (++s->depth > 16 || !sum(s, count) || *s->p != ')') {
            return false;
        }
        s->p++;
        s->depth--;
        return true;
    }
    if (*s->p++ != '[') {
        return false;
    }
    for (spaces(s); *s->p != ']'; spaces(s)) {
        if ((*s->p != '0' && *s->p != '1') || !append(s, count, (uint8_t)(*s->p - '0'))) {
            return false;
        }
        s->p++;
        spaces(s);
        if (*s->p == ',') {
            s->p++;
        } else if (*s->p != ']') {
            return false;
        }
    }
    s->p++;
    return true;
}

static bool product(pattern *s, size_t *count) {
    size_t start = *count;
    if (!atom(s, count)) {
        return false;
    }
    for (spaces(s); *s->p == '*'; spaces(s)) {
        size_t times, length = *count - start;
        s->p++;
        spaces(s);
        if (!natural(s, &times)) {
            return false;
        }
        if (times == 0) {
            *count = start;
        }
        for (size_t i = 1; i < times; i++) {
            for (size_t k = 0; k < length; k++) {
                if (!append(s, count, s->out[start + k])) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool sum(pattern *s, size_t *count) {
    if (!product(s, count)) {
        return false;
    }
    for (spaces(s); *s->p == '+'; spaces(s)) {
        s->p++;
        if (!product(s, count)) {
            return false;
        }
    }
    return true;
}

bool orr_pattern_expand(const char *text, uint8_t *out, size_t limit, size_t *count) {
    pattern s = {.p = text, .out = out, .limit = limit};
    *count = 0;
    return sum(&s, count) && *s.p == '\0' && *count > 0;
}
