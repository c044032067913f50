/* Conditions of [ ], test and [[ ]]: decided where their words are known. */
#include <string.h>

#include "exchange/shell_int.h"

/* A star retries from where it last matched, so the work is at most length times pattern. */
bool orr_shell_match(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text != '\0') {
        bool one = false;
        const char *next = pattern;
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
            continue;
        }
        if (*pattern == '[' && strchr(pattern + 1, ']') != NULL) {
            const char *p = pattern + 1;
            bool negated = *p == '!' || *p == '^';
            p += negated;
            bool in = false;
            for (bool first = true; *p != '\0' && (first || *p != ']'); first = false) {
                if (p[1] == '-' && p[2] != ']' && p[2] != '\0') {
                    in = in || (*text >= p[0] && *text <= p[2]);
                    p += 3;
                } else {
                    in = in || *text == *p;
                    p++;
                }
            }
            one = in != negated;
            next = *p == ']' ? p + 1 : p;
        } else if (*pattern != '\0') {
            one = *pattern == '?' || *pattern == *text;
            next = pattern + 1;
        }
        if (one) {
            pattern = next;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

typedef struct test {
    reader *r;
    const raw_words *words;
    size_t at;
    bool extended;
    const char *assumed;
    int depth;
} test;

static tri either(test *t);

static const char *word(const test *t, size_t ahead) {
    return t->at + ahead < t->words->count ? t->words->at[t->at + ahead].text : NULL;
}

static bool is(const test *t, size_t ahead, const char *text) {
    const char *w = word(t, ahead);
    return w != NULL && strcmp(w, text) == 0;
}

/* The plain text of a word, or NULL when it is not known. */
static const char *plain(test *t, const char *w) {
    if (strchr(w, MARK_UNKNOWN) != NULL) {
        return NULL;
    }
    const char *why = orr_shell_why(t->r, w, MARK_ASSUMED);
    t->assumed = t->assumed != NULL ? t->assumed : why;
    (void)orr_shell_spend(t->r, strlen(w));
    return orr_shell_plain(t->r, w);
}

static tri decided(bool yes) {
    return yes ? YES : NO;
}

static tri unary(test *t, char op, const char *operand) {
    const char *text = plain(t, operand);
    if (op == 'z' || op == 'n') {
        return text == NULL ? MAYBE : decided((text[0] == '\0') == (op == 'z'));
    }
    if (op == 'v' && text != NULL && orr_shell_var(t->r, text) != NULL) {
        return YES;
    }
    return MAYBE; /* files, descriptors, the environment */
}

static tri compare_numbers(test *t, const char *op, const char *a, const char *b) {
    int64_t x, y;
    if (!orr_parse_int(a, &x) || !orr_parse_int(b, &y)) {
        bool known_x = false, known_y = false;
        if (!t->extended) {
            return MAYBE;
        }
        (void)orr_shell_arith(t->r, a, a, &x, &known_x);
        (void)orr_shell_arith(t->r, b, b, &y, &known_y);
        if (!known_x || !known_y) {
            return MAYBE;
        }
    }
    static const char *const names[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    const bool result[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(op, names[i]) == 0) {
            return decided(result[i]);
        }
    }
    return MAYBE;
}

static tri binary(test *t, const char *left, const char *op, const char *right) {
    const char *a = plain(t, left), *b = plain(t, right);
    if (a == NULL || b == NULL) {
        return MAYBE;
    }
    bool equal = strcmp(op, "=") == 0 || strcmp(op, "==") == 0;
    if (equal || strcmp(op, "!=") == 0) {
        bool same = t->extended ? orr_shell_match(b, a) : strcmp(a, b) == 0;
        return decided(same == equal);
    }
    if (strcmp(op, "<") == 0 || strcmp(op, ">") == 0) {
        return decided(op[0] == '<' ? strcmp(a, b) < 0 : strcmp(a, b) > 0);
    }
    return op[0] == '-' ? compare_numbers(t, op, a, b) : MAYBE;
}

static bool is_binary(const char *w) {
    static const char *const names[] = {"=",   "==",  "!=",  "<",   ">",   "=~",  "-eq", "-ne",
                                        "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"};
    for (size_t i = 0; w != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(w, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static tri single(test *t) {
    if (word(t, 0) == NULL || t->depth > ORR_SHELL_MAX_DEPTH) {
        t->at = t->words->count;
        return MAYBE;
    }
    t->depth++;
    tri result;
    if (is_binary(word(t, 1)) && word(t, 2) != NULL) {
        result = binary(t, word(t, 0), word(t, 1), word(t, 2));
        t->at += 3;
    } else if (is(t, 0, "!")) {
        t->at++;
        tri inner = single(t);
        result = inner == MAYBE ? MAYBE : decided(inner == NO);
    } else if (is(t, 0, "(")) {
        t->at++;
        result = either(t);
        t->at += is(t, 0, ")");
    } else if (word(t, 0)[0] == '-' && strlen(word(t, 0)) == 2 && word(t, 1) != NULL) {
        result = unary(t, word(t, 0)[1], word(t, 1));
        t->at += 2;
    } else {
        const char *text = plain(t, word(t, 0));
        result = text == NULL ? MAYBE : decided(text[0] != '\0');
        t->at++;
    }
    t->depth--;
    return result;
}

static tri both(test *t) {
    tri result = single(t);
    while (is(t, 0, "-a") || is(t, 0, "&&")) {
        t->at++;
        tri next = single(t);
        result = result == NO || next == NO ? NO : result == YES && next == YES ? YES : MAYBE;
    }
    return result;
}

static tri either(test *t) {
    tri result = both(t);
    while (is(t, 0, "-o") || is(t, 0, "||")) {
        t->at++;
        tri next = both(t);
        result = result == YES || next == YES ? YES : result == NO && next == NO ? NO : MAYBE;
    }
    return result;
}

tri orr_shell_test(reader *r, const raw_words *words, bool extended, uint32_t line) {
    if (r->inactive > 0) {
        return MAYBE;
    }
    test t = {.r = r, .words = words, .extended = extended};
    if (words->count == 0) {
        return NO;
    }
    tri result = either(&t);
    if (t.at < words->count) {
        return MAYBE;
    }
    if (result != MAYBE && t.assumed != NULL) {
        orr_shell_remark(r, line, "the condition is decided by %s", t.assumed);
    }
    return result;
}
