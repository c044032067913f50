/* Integer arithmetic of $(( )), (( )) and let. A name that the script never set, an overflow and a
 * division by zero make the result unknown. */
#include <string.h>

#include "exchange/shell_int.h"

typedef struct arith {
    reader *r;
    const char *p;
    bool known, failed;  /* failed: not understood or not computable */
    const char *unknown; /* what it depends on */
    const char *assumed;
    int depth;
} arith;

static int64_t expression(arith *a, int level);

static void spaces(arith *a) {
    for (;;) {
        if (*a->p == ' ' || *a->p == '\t' || *a->p == '\n') {
            a->p++;
        } else if (*a->p == MARK_ASSUMED || *a->p == MARK_UNKNOWN) {
            const char *why = orr_shell_why(a->r, a->p, *a->p);
            if (*a->p == MARK_UNKNOWN) {
                a->known = false;
                a->unknown = a->unknown != NULL ? a->unknown : why;
                return;
            }
            a->assumed = a->assumed != NULL ? a->assumed : why;
            for (int i = 0; i < MARK_BYTES && *a->p != '\0'; i++) {
                a->p++;
            }
        } else {
            return;
        }
    }
}

static int64_t number(arith *a) {
    int64_t value = 0;
    int base = 10;
    if (a->p[0] == '0' && (a->p[1] == 'x' || a->p[1] == 'X')) {
        base = 16;
        a->p += 2;
    } else if (a->p[0] == '0' && a->p[1] >= '0' && a->p[1] <= '9') {
        base = 8;
    }
    for (;; a->p++) {
        char c = *a->p;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
        if (digit >= base) {
            a->failed = a->failed || digit < 99;
            break;
        }
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, (int64_t)digit, &value)) {
            a->failed = true;
        }
    }
    return value;
}

static int64_t variable(arith *a, const char *name) {
    const shell_var *var = orr_shell_var(a->r, name);
    if (var == NULL || var->value.count == 0 || a->depth >= 16) {
        a->known = false;
        a->unknown = a->unknown != NULL ? a->unknown : orr_arena_format(a->r->arena, "$%s", name);
        return 0;
    }
    arith inner = {.r = a->r, .p = var->value.at[0].text, .known = true, .depth = a->depth + 1};
    spaces(&inner);
    int64_t value = *inner.p == '\0' ? 0 : expression(&inner, 0);
    spaces(&inner);
    a->failed = a->failed || inner.failed || (inner.known && *inner.p != '\0');
    a->known = a->known && inner.known;
    a->unknown = a->unknown != NULL ? a->unknown : inner.unknown;
    a->assumed = a->assumed != NULL ? a->assumed : inner.assumed;
    return value;
}

static void assign(arith *a, const char *name, int64_t value) {
    raw_words words = {0};
    orr_text text = orr_text_new(a->r->arena, 4096);
    if (!a->known || a->failed) {
        orr_shell_mark(a->r, &text, MARK_UNKNOWN, a->unknown != NULL ? a->unknown : name);
    } else {
        if (a->assumed != NULL) {
            orr_shell_mark(a->r, &text, MARK_ASSUMED, a->assumed);
        }
        orr_text_format(&text, "%lld", (long long)value);
    }
    orr_shell_add(a->r, &words, orr_text_done(&text), a->r->line);
    orr_shell_set(a->r, name, words, false);
}

static int64_t primary(arith *a) {
    spaces(a);
    if (!a->known || a->failed || ++a->depth > 64) {
        a->failed = a->failed || a->known;
        return 0;
    }
    int64_t value = 0;
    char c = *a->p;
    if (c == '(') {
        a->p++;
        value = expression(a, 0);
        spaces(a);
        a->failed = a->failed || (a->known && *a->p != ')');
        a->p += *a->p == ')';
    } else if (c == '-' || c == '+' || c == '!') {
        a->p++;
        value = primary(a);
        if (c == '!') {
            value = value == 0;
        } else if (c == '-' && __builtin_sub_overflow((int64_t)0, value, &value)) {
            a->failed = true;
        }
    } else if (c >= '0' && c <= '9') {
        value = number(a);
    } else if (is_name_start(c)) {
        const char *start = a->p;
        while (is_name_char(*a->p)) {
            a->p++;
        }
        const char *name = orr_arena_copy(a->r->arena, start, (size_t)(a->p - start));
        (void)orr_shell_spend(a->r, (size_t)(a->p - start));
        spaces(a);
        if (a->p[0] == '=' && a->p[1] != '=') {
            a->p++;
            value = expression(a, 0);
            assign(a, name, value);
        } else if ((a->p[0] == '+' || a->p[0] == '-') && a->p[1] == a->p[0]) {
            value = variable(a, name);
            if (__builtin_add_overflow(value, a->p[0] == '+' ? 1 : -1, &value)) {
                a->failed = true;
            }
            a->p += 2;
            assign(a, name, value);
        } else {
            value = variable(a, name);
        }
    } else {
        a->failed = true;
    }
    a->depth--;
    return value;
}

typedef struct operator_info {
    const char *text;
    int level;
} operator_info;

/* Longer spellings first. */
static const operator_info operators[] = {
    {"**", 7}, {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4},
    {"<", 4},  {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"%", 6},
};

static int64_t power(arith *a, int64_t base, int64_t exponent) {
    int64_t value = 1;
    if (exponent < 0 || exponent > 63) {
        a->failed = a->failed || !(exponent >= 0 && (base == 0 || base == 1));
        return base;
    }
    for (int64_t i = 0; i < exponent; i++) {
        a->failed = a->failed || __builtin_mul_overflow(value, base, &value);
    }
    return value;
}

static int64_t apply(arith *a, const char *op, int64_t x, int64_t y) {
    int64_t value = 0;
    bool bad = false;
    switch (op[0]) {
    case '|': return x != 0 || y != 0;
    case '&': return x != 0 && y != 0;
    case '=': return x == y;
    case '!': return x != y;
    case '<': return op[1] == '=' ? x <= y : x < y;
    case '>': return op[1] == '=' ? x >= y : x > y;
    case '+': bad = __builtin_add_overflow(x, y, &value); break;
    case '-': bad = __builtin_sub_overflow(x, y, &value); break;
    case '*':
        if (op[1] == '*') {
            return power(a, x, y);
        }
        bad = __builtin_mul_overflow(x, y, &value);
        break;
    default:
        bad = y == 0 || (x == INT64_MIN && y == -1);
        value = bad ? 0 : op[0] == '/' ? x / y : x % y;
        break;
    }
    a->failed = a->failed || bad;
    return value;
}

static int64_t expression(arith *a, int level) {
    if (++a->depth > 64) {
        a->failed = true;
        return 0;
    }
    int64_t value = primary(a);
    for (;;) {
        spaces(a);
        if (!a->known || a->failed) {
            break;
        }
        const operator_info *op = NULL;
        for (size_t i = 0; i < sizeof operators / sizeof *operators && op == NULL; i++) {
            if (strncmp(a->p, operators[i].text, strlen(operators[i].text)) == 0) {
                op = &operators[i];
            }
        }
        if (op == NULL || op->level < level) {
            break;
        }
        a->p += strlen(op->text);
        /* Left-associative but for the power. */
        int64_t right = expression(a, op->level + (op->text[1] == '*' ? 0 : 1));
        value = apply(a, op->text, value, right);
    }
    if (level == 0 && *a->p == '?' && a->known && !a->failed) {
        a->p++;
        int64_t yes = expression(a, 0);
        spaces(a);
        a->failed = a->failed || *a->p != ':';
        a->p += *a->p == ':';
        int64_t no = expression(a, 0);
        value = value != 0 ? yes : no;
    }
    a->depth--;
    return value;
}

char *orr_shell_arith(reader *r, const char *text, const char *source, int64_t *value,
                      bool *known) {
    arith a = {.r = r, .p = text, .known = true};
    int64_t result = expression(&a, 0);
    spaces(&a);
    a.failed = a.failed || (a.known && *a.p != '\0');
    bool good = a.known && !a.failed;
    orr_text out = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
    if (!good) {
        orr_shell_mark(r, &out, MARK_UNKNOWN, a.unknown != NULL ? a.unknown : source);
    } else {
        if (a.assumed != NULL) {
            orr_shell_mark(r, &out, MARK_ASSUMED, a.assumed);
        }
        orr_text_format(&out, "%lld", (long long)result);
    }
    if (value != NULL) {
        *value = good ? result : 0;
    }
    if (known != NULL) {
        *known = good;
    }
    return orr_text_done(&out);
}
