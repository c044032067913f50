/* Words of a script: quotes and expansions, in the order of the text. */
#include <string.h>

#include "exchange/shell_int.h"

enum { SOURCE_SHOWN = 60 };

/* Fields under construction. */
typedef struct builder {
    raw_words *out;
    orr_text field;
    bool open; /* the field exists, even if empty (quotes) */
    bool split;
    uint32_t line;
} builder;

static builder builder_new(reader *r, raw_words *out, bool split) {
    return (builder){.out = out,
                     .field = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION),
                     .split = split,
                     .line = r->line};
}

static void close_field(reader *r, builder *b) {
    if (b->open) {
        orr_shell_add(r, b->out, orr_text_done(&b->field), b->line);
        b->field = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
        b->open = false;
        b->line = r->line;
    }
}

static void put(reader *r, builder *b, const char *bytes, size_t length) {
    if (r->inactive == 0 && orr_shell_spend(r, length)) {
        orr_text_addn(&b->field, bytes, length);
    }
    b->open = true;
}

/* The text of an unquoted expansion: blanks end fields. */
static void put_split(reader *r, builder *b, const char *text, uint32_t line) {
    if (!b->split) {
        put(r, b, text, strlen(text));
        return;
    }
    for (const char *p = text; *p != '\0' && going(r);) {
        size_t n = strcspn(p, " \t\n");
        if (n > 0) {
            if (!b->open) {
                b->line = line;
            }
            put(r, b, p, n);
            p += n;
        }
        if (*p != '\0') {
            close_field(r, b);
            p++;
        }
    }
}

static const char *shown_source(reader *r, size_t from) {
    size_t length = r->pos - from, cut = length > SOURCE_SHOWN ? SOURCE_SHOWN : length;
    char *text = orr_arena_copy(r->arena, r->text + from, cut);
    for (char *p = text; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\t') {
            *p = ' ';
        }
    }
    return cut < length ? orr_arena_format(r->arena, "%s...", text) : text;
}

static void put_mark(reader *r, builder *b, char kind, const char *why) {
    if (r->inactive == 0 && orr_shell_spend(r, MARK_BYTES + strlen(why))) {
        orr_shell_mark(r, &b->field, kind, why);
    }
    b->open = b->open || kind == MARK_UNKNOWN;
}

static void put_unknown(reader *r, builder *b, size_t from) {
    if (r->inactive == 0) {
        put_mark(r, b, MARK_UNKNOWN, shown_source(r, from));
    }
}

/* ---- expansions ----------------------------------------------------------------------------- */

static void expand_dollar(reader *r, builder *b, bool quoted);

/* Text up to an unquoted `close`, without splitting; quotes and expansions are followed. */
static char *operand_until(reader *r, char close) {
    uint32_t line = r->line;
    raw_words none = {0};
    builder b = builder_new(r, &none, false);
    bool in_double = false;
    while (going(r) && r->pos < r->end && (in_double || look(r, 0) != close)) {
        char c = look(r, 0);
        if (c == '"') {
            in_double = !in_double;
            orr_shell_step(r);
        } else if (c == '\'' && !in_double && close != ')') {
            size_t from = r->pos + 1;
            orr_shell_skip_single(r);
            if (going(r)) {
                put(r, &b, r->text + from, r->pos - 1 - from);
            }
        } else if (c == '\\' && r->pos + 1 < r->end) {
            orr_shell_step(r);
            if (look(r, 0) != '\n') {
                put(r, &b, r->text + r->pos, 1);
            }
            orr_shell_step(r);
        } else if (c == '$') {
            expand_dollar(r, &b, true);
        } else if (c == '`') {
            size_t from = r->pos;
            orr_shell_skip_backquote(r);
            put_unknown(r, &b, from);
        } else {
            put(r, &b, r->text + r->pos, 1);
            orr_shell_step(r);
        }
    }
    if (r->pos >= r->end && close != '\0') {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the bracket opened here is never closed");
    }
    orr_shell_step(r);
    return orr_text_done(&b.field);
}

char *orr_shell_text_until(reader *r, char close) {
    return operand_until(r, close);
}

/* $(( ... )) with the cursor behind the parentheses; false when it is a command after all. */
static bool expand_arithmetic(reader *r, builder *b, size_t from) {
    size_t start = r->pos, level = 0, p = start;
    for (; p < r->end; p++) {
        char c = r->text[p];
        if (c == '(') {
            level++;
        } else if (c == ')' && level > 0) {
            level--;
        } else if (c == ')') {
            break;
        }
    }
    if (p + 1 >= r->end || r->text[p + 1] != ')') {
        return false;
    }
    size_t end = r->end;
    r->end = p;
    char *expression = operand_until(r, '\0');
    r->end = end;
    if (!going(r)) {
        return true;
    }
    r->pos = p + 2;
    if (r->inactive == 0) {
        char *result = orr_shell_arith(r, expression, shown_source(r, from), NULL, NULL);
        put(r, b, result, strlen(result));
    } else {
        b->open = true;
    }
    return true;
}

/* What "${" names. */
typedef struct reference {
    const char *name;
    const char *index; /* NULL, "@", "*" or an expression */
    bool special;      /* $1, $@, $#: given by the caller */
} reference;

static reference read_reference(reader *r) {
    reference ref = {.name = ""};
    size_t from = r->pos;
    if (is_name_start(look(r, 0))) {
        while (is_name_char(look(r, 0))) {
            orr_shell_step(r);
        }
    } else {
        ref.special = true;
        if (look(r, 0) >= '0' && look(r, 0) <= '9') {
            while (look(r, 0) >= '0' && look(r, 0) <= '9') {
                orr_shell_step(r);
            }
        } else if (r->pos < r->end && strchr("@*#?-$!", look(r, 0)) != NULL) {
            orr_shell_step(r);
        }
    }
    ref.name = orr_arena_copy(r->arena, r->text + from, r->pos - from);
    if (!ref.special && look(r, 0) == '[') {
        orr_shell_step(r);
        ref.index = orr_shell_plain(r, operand_until(r, ']'));
    }
    return ref;
}

/* The reference's words; an unset one has none. */
static raw_words reference_value(reader *r, const reference *ref, bool *set) {
    raw_words value = {0};
    const shell_var *var = ref->special ? NULL : orr_shell_var(r, ref->name);
    *set = var != NULL;
    if (var == NULL) {
        return value;
    }
    bool all = ref->index != NULL && (ref->index[0] == '@' || ref->index[0] == '*');
    if (all) {
        return var->value;
    }
    int64_t index = 0;
    bool known = true;
    if (ref->index != NULL) {
        (void)orr_shell_arith(r, ref->index, ref->index, &index, &known);
    }
    if (!known || index < -(int64_t)var->value.count || index >= (int64_t)var->value.count) {
        *set = false;
        return value;
    }
    size_t at = index < 0 ? (size_t)(index + (int64_t)var->value.count) : (size_t)index;
    orr_shell_add(r, &value, var->value.at[at].text, var->value.at[at].line);
    return value;
}

static void put_value(reader *r, builder *b, raw_words value, bool separate, bool quoted) {
    for (size_t i = 0; i < value.count && going(r); i++) {
        const char *text = value.at[i].text;
        if (i > 0 && separate && b->split) {
            close_field(r, b);
        } else if (i > 0) {
            put(r, b, " ", 1);
        }
        if (r->inactive > 0) {
            b->open = true;
        } else if (quoted) {
            if (!b->open) {
                b->line = value.at[i].line;
            }
            put(r, b, text, strlen(text));
        } else {
            put_split(r, b, text, value.at[i].line);
        }
    }
}

static bool value_empty(reader *r, raw_words value) {
    for (size_t i = 0; i < value.count; i++) {
        if (strchr(value.at[i].text, MARK_UNKNOWN) != NULL ||
            orr_shell_plain(r, value.at[i].text)[0] != '\0') {
            return false;
        }
    }
    return true;
}

static void put_fallback(reader *r, builder *b, const char *text, const char *why, bool quoted) {
    if (why != NULL) {
        put_mark(r, b, MARK_ASSUMED, why);
    }
    if (quoted) {
        put(r, b, text, strlen(text));
    } else {
        /* The mark belongs to every field that the fallback makes. */
        for (const char *p = text; *p != '\0' && going(r);) {
            size_t n = strcspn(p, " \t\n");
            if (n > 0) {
                put(r, b, p, n);
            }
            p += n;
            if (*p != '\0' && b->split) {
                close_field(r, b);
                if (why != NULL) {
                    put_mark(r, b, MARK_ASSUMED, why);
                }
                p++;
            } else if (*p != '\0') {
                put(r, b, p++, 1);
            }
        }
    }
}

/* Removes the shortest or longest prefix or suffix that matches. */
static const char *trim(reader *r, const char *text, const char *pattern, bool prefix,
                        bool longest) {
    size_t n = strlen(text);
    for (size_t i = 0; i <= n; i++) {
        size_t cut = longest ? n - i : i;
        const char *part = prefix ? orr_arena_copy(r->arena, text, cut) : text + (n - cut);
        if (!orr_shell_spend(r, n)) {
            return text;
        }
        if (orr_shell_match(pattern, part)) {
            return prefix ? text + cut : orr_arena_copy(r->arena, text, n - cut);
        }
    }
    return text;
}

static char change_case(char c, bool up) {
    if (up) {
        return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ${X%...} and its like on a known single value; false: not followed. */
static bool put_edited(reader *r, builder *b, raw_words value, bool quoted) {
    char op = look(r, 0);
    bool twice = look(r, 1) == op;
    if (strchr("#%^,", op) == NULL || op == '\0' || value.count != 1 ||
        strchr(value.at[0].text, MARK_UNKNOWN) != NULL || strlen(value.at[0].text) > 512) {
        return false;
    }
    orr_shell_step(r);
    if (twice) {
        orr_shell_step(r);
    }
    const char *pattern = orr_shell_plain(r, operand_until(r, '}'));
    const char *assumed = orr_shell_why(r, value.at[0].text, MARK_ASSUMED);
    const char *text = orr_shell_plain(r, value.at[0].text);
    if (op == '#' || op == '%') {
        text = trim(r, text, pattern, op == '#', twice);
    } else {
        char *copy = orr_arena_text(r->arena, text);
        for (size_t i = 0; copy[i] != '\0' && (twice || i == 0); i++) {
            copy[i] = change_case(copy[i], op == '^');
        }
        text = copy;
    }
    put_fallback(r, b, text, assumed, quoted);
    return true;
}

/* What stands between the braces of ${NAME...}, up to its operator. */
typedef struct braced {
    reference ref;
    raw_words value;
    size_t from; /* of the dollar sign */
    uint32_t line;
    bool set, all; /* all: of an array */
    bool separate; /* elements are fields of their own */
    bool quoted;
} braced;

/* ${#NAME} and ${#NAME[@]}. */
static void put_length(reader *r, builder *b, const braced *x) {
    bool one = x->value.count == 1 && strchr(x->value.at[0].text, MARK_UNKNOWN) == NULL;
    if (!x->set || !(x->all || one)) {
        put_unknown(r, b, x->from);
        return;
    }
    size_t n = x->all ? x->value.count : strlen(orr_shell_plain(r, x->value.at[0].text));
    const char *text = orr_arena_format(r->arena, "%zu", n);
    put(r, b, text, strlen(text));
}

/* ${NAME=operand}: the script keeps it. */
static void keep_fallback(reader *r, const braced *x, const char *operand, const char *why) {
    raw_words kept = {0};
    orr_text text = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
    if (why != NULL && r->inactive == 0) {
        orr_shell_mark(r, &text, MARK_ASSUMED, why);
    }
    orr_text_add(&text, operand);
    orr_shell_add(r, &kept, orr_text_done(&text), x->line);
    orr_shell_set(r, x->ref.name, kept, false);
}

/* ${NAME-operand}, or another of -=+? with or without a colon; the cursor is behind it. */
static void put_operand(reader *r, builder *b, const braced *x, char op, bool colon) {
    const char *operand = operand_until(r, '}');
    bool usable = x->set && !(colon && value_empty(r, x->value));
    if (op == '+' && usable) {
        put_fallback(r, b, operand, NULL, x->quoted);
    } else if (op == '+') {
        return;
    } else if (usable) {
        put_value(r, b, x->value, x->separate, x->quoted);
    } else if (op == '?' || (x->ref.special && x->ref.name[0] != '\0' && operand[0] == '\0')) {
        put_unknown(r, b, x->from);
    } else {
        /* Set in the script but empty: the script decides. Unset: the environment may. */
        const char *why =
            x->set ? NULL
                   : orr_arena_format(r->arena, "the fallback in %s at line %u; %s may set another",
                                      shown_source(r, x->from), x->line,
                                      x->ref.special ? "an argument" : "the environment");
        if (op == '=' && !x->ref.special) {
            keep_fallback(r, x, operand, why);
        }
        put_fallback(r, b, operand, why, x->quoted);
    }
}

/* Behind "${". */
static void expand_braced(reader *r, builder *b, size_t from, bool quoted) {
    if (!orr_shell_enter(r)) {
        return;
    }
    braced x = {.from = from, .line = r->line, .quoted = quoted};
    bool count = look(r, 0) == '#' && look(r, 1) != '}';
    bool indirect = look(r, 0) == '!';
    if (count || indirect) {
        orr_shell_step(r);
    }
    x.ref = read_reference(r);
    x.value = reference_value(r, &x.ref, &x.set);
    x.all = x.ref.index != NULL && (x.ref.index[0] == '@' || x.ref.index[0] == '*');
    x.separate = x.all && (x.ref.index[0] == '@' || !quoted);
    bool colon = look(r, 0) == ':' && r->pos + 1 < r->end && strchr("-=+?", look(r, 1)) != NULL;
    char op = look(r, colon ? 1 : 0);
    if (indirect || x.ref.name[0] == '\0') {
        orr_shell_skip_balanced(r, '{', '}');
        put_unknown(r, b, from);
    } else if (count && op == '}') {
        orr_shell_step(r);
        put_length(r, b, &x);
    } else if (op == '}' && !colon) {
        orr_shell_step(r);
        if (x.set) {
            put_value(r, b, x.value, x.separate, quoted);
        } else {
            put_unknown(r, b, from);
        }
    } else if (op != '\0' && strchr("-=+?", op) != NULL) {
        orr_shell_step(r);
        if (colon) {
            orr_shell_step(r);
        }
        put_operand(r, b, &x, op, colon);
    } else if (!(x.set && !count && put_edited(r, b, x.value, quoted))) {
        orr_shell_skip_balanced(r, '{', '}');
        put_unknown(r, b, from);
    }
    orr_shell_leave(r);
}

static void expand_name(reader *r, builder *b, size_t from, bool quoted) {
    reference ref = {.name = ""};
    size_t start = r->pos;
    while (is_name_char(look(r, 0))) {
        orr_shell_step(r);
    }
    ref.name = orr_arena_copy(r->arena, r->text + start, r->pos - start);
    bool set;
    raw_words value = reference_value(r, &ref, &set);
    if (set) {
        put_value(r, b, value, false, quoted);
    } else {
        put_unknown(r, b, from);
    }
}

/* At a dollar sign. */
static void expand_dollar(reader *r, builder *b, bool quoted) {
    size_t from = r->pos;
    if (!orr_shell_enter(r)) {
        return;
    }
    orr_shell_step(r);
    char c = look(r, 0);
    if (c == '(') {
        orr_shell_step(r);
        bool done = false;
        if (look(r, 0) == '(') {
            size_t pos = r->pos;
            uint32_t line = r->line;
            orr_shell_step(r);
            done = expand_arithmetic(r, b, from);
            if (!done) {
                r->pos = pos;
                r->line = line;
            }
        }
        if (!done) {
            orr_shell_skip_parens(r);
            put_unknown(r, b, from);
        }
    } else if (c == '{') {
        orr_shell_step(r);
        expand_braced(r, b, from, quoted);
    } else if (is_name_start(c)) {
        expand_name(r, b, from, quoted);
    } else if ((c >= '0' && c <= '9') || (c != '\0' && strchr("@*#?-$!", c) != NULL)) {
        orr_shell_step(r);
        put_unknown(r, b, from);
    } else {
        put(r, b, "$", 1);
    }
    orr_shell_leave(r);
}

static void read_double(reader *r, builder *b) {
    uint32_t line = r->line;
    orr_shell_step(r);
    /* "${A[@]}" of an empty array is no field at all, any other quoted text is one. */
    bool only_array = look(r, 0) == '$' && look(r, 1) == '{';
    size_t fields = b->out->count;
    bool was_open = b->open;
    while (going(r) && r->pos < r->end && look(r, 0) != '"') {
        char c = look(r, 0);
        if (c == '\\' && r->pos + 1 < r->end) {
            char next = look(r, 1);
            if (next == '\n') {
                orr_shell_step(r);
            } else if (strchr("$`\"\\", next) != NULL) {
                orr_shell_step(r);
                put(r, b, &r->text[r->pos], 1);
            } else {
                put(r, b, &r->text[r->pos], 1);
                orr_shell_step(r);
                put(r, b, &r->text[r->pos], 1);
            }
            orr_shell_step(r);
            only_array = false;
        } else if (c == '$') {
            expand_dollar(r, b, true);
        } else if (c == '`') {
            size_t from = r->pos;
            orr_shell_skip_backquote(r);
            put_unknown(r, b, from);
        } else {
            put(r, b, &r->text[r->pos], 1);
            orr_shell_step(r);
            only_array = false;
        }
    }
    if (r->pos >= r->end) {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the quote \" opened here is never closed");
    }
    orr_shell_step(r);
    if (!only_array || b->open || b->out->count > fields || was_open) {
        b->open = true;
    }
}

void orr_shell_word_read(reader *r, raw_words *out, bool split) {
    builder b = builder_new(r, out, split);
    while (going(r) && r->pos < r->end) {
        char c = look(r, 0);
        if (c == '\\' && look(r, 1) == '\n') {
            orr_shell_step(r);
            orr_shell_step(r);
        } else if (c == '\\') {
            orr_shell_step(r);
            if (r->pos < r->end) {
                put(r, &b, &r->text[r->pos], 1);
            }
            orr_shell_step(r);
        } else if (c == '\'' || (c == '$' && look(r, 1) == '\'')) {
            if (c == '$') {
                orr_shell_step(r);
            }
            size_t from = r->pos + 1;
            orr_shell_skip_single(r);
            if (going(r)) {
                put(r, &b, r->text + from, r->pos - 1 - from);
            }
        } else if (c == '"' || (c == '$' && look(r, 1) == '"')) {
            if (c == '$') {
                orr_shell_step(r);
            }
            read_double(r, &b);
        } else if (c == '$') {
            expand_dollar(r, &b, !split);
        } else if (c == '`') {
            size_t from = r->pos;
            orr_shell_skip_backquote(r);
            put_unknown(r, &b, from);
        } else if ((c == '<' || c == '>') && look(r, 1) == '(' && !b.open) {
            size_t from = r->pos;
            orr_shell_step(r);
            orr_shell_step(r);
            orr_shell_skip_parens(r);
            put_unknown(r, &b, from);
        } else if (is_meta(c)) {
            break;
        } else {
            put(r, &b, &r->text[r->pos], 1);
            orr_shell_step(r);
        }
    }
    close_field(r, &b);
}

void orr_shell_split(reader *r, raw_words *out, raw_word value) {
    builder b = builder_new(r, out, true);
    put_split(r, &b, value.text, value.line);
    close_field(r, &b);
}
