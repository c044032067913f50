/* Values of the shell reader: words, marks, variables. */
#include <string.h>

#include "base/err.h"
#include "exchange/shell_int.h"

void orr_shell_step(reader *r) {
    if (r->pos < r->end) {
        r->line += r->text[r->pos] == '\n';
        r->pos++;
    }
}

void orr_shell_fail(reader *r, orr_status status, uint32_t line, const char *what) {
    if (going(r)) {
        orr_span span = {.file = r->name, .line = line};
        r->status = orr_fail_at(r->err, status, span, "%s", what);
        r->pos = r->end;
    }
}

bool orr_shell_enter(reader *r) {
    if (r->depth >= ORR_SHELL_MAX_DEPTH) {
        orr_shell_fail(r, ORR_E_LIMIT, r->line, "shell constructs are nested too deeply");
        return false;
    }
    r->depth++;
    return true;
}

void orr_shell_leave(reader *r) {
    r->depth--;
}

bool orr_shell_spend(reader *r, size_t bytes) {
    r->expanded += bytes;
    if (r->expanded > ORR_SHELL_MAX_EXPANSION) {
        orr_shell_fail(r, ORR_E_LIMIT, r->line, "the script's variables expand to too much text");
        return false;
    }
    return true;
}

void orr_shell_add(reader *r, raw_words *words, const char *text, uint32_t line) {
    if (words->count == words->capacity) {
        size_t capacity = words->capacity == 0 ? 8 : words->capacity * 2;
        raw_word *at = ORR_NEW_ARRAY(r->arena, raw_word, capacity);
        if (words->count > 0) {
            memcpy(at, words->at, words->count * sizeof *at);
        }
        words->at = at;
        words->capacity = capacity;
    }
    words->at[words->count++] = (raw_word){.text = text, .line = line};
    (void)orr_shell_spend(r, 64);
}

void orr_shell_mark(reader *r, orr_text *out, char kind, const char *why) {
    if (r->mark_count == r->mark_capacity && r->mark_count < MAX_MARKS) {
        size_t capacity = r->mark_capacity == 0 ? 32 : r->mark_capacity * 2;
        const char **mark = ORR_NEW_ARRAY(r->arena, const char *, capacity);
        if (r->mark_count > 0) {
            memcpy(mark, r->mark, r->mark_count * sizeof *mark);
        }
        r->mark = mark;
        r->mark_capacity = capacity;
    }
    size_t index = MAX_MARKS - 1;
    if (r->mark_count < MAX_MARKS) {
        index = r->mark_count++;
        r->mark[index] = orr_arena_text(r->arena, why);
    }
    char bytes[MARK_BYTES] = {kind, (char)('a' + (index >> 12 & 15)),
                              (char)('a' + (index >> 8 & 15)), (char)('a' + (index >> 4 & 15)),
                              (char)('a' + (index & 15))};
    orr_text_addn(out, bytes, sizeof bytes);
}

static bool is_mark(const char *p) {
    return *p == MARK_UNKNOWN || *p == MARK_ASSUMED;
}

/* Marks are only ever written whole, but an expansion may have cut one short. */
static size_t mark_length(const char *p) {
    size_t n = 1;
    while (n < MARK_BYTES && p[n] >= 'a' && p[n] <= 'p') {
        n++;
    }
    return n;
}

static const char *mark_why(const reader *r, const char *p) {
    size_t index = 0;
    for (size_t i = 1; i < mark_length(p); i++) {
        index = index << 4 | (size_t)(p[i] - 'a');
    }
    return mark_length(p) == MARK_BYTES && index < r->mark_count ? r->mark[index] : "?";
}

const char *orr_shell_why(const reader *r, const char *text, char kind) {
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == kind) {
            return mark_why(r, p);
        }
    }
    return NULL;
}

char *orr_shell_plain(reader *r, const char *text) {
    orr_text out = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
    for (const char *p = text; *p != '\0';) {
        if (is_mark(p)) {
            p += mark_length(p);
        } else {
            orr_text_addn(&out, p++, 1);
        }
    }
    return orr_text_done(&out);
}

orr_shell_word orr_shell_finish(reader *r, raw_word w) {
    orr_shell_word word = {.line = w.line, .text = w.text};
    if (strchr(w.text, MARK_UNKNOWN) == NULL && strchr(w.text, MARK_ASSUMED) == NULL) {
        return word;
    }
    word.unknown = orr_shell_why(r, w.text, MARK_UNKNOWN);
    word.assumed = orr_shell_why(r, w.text, MARK_ASSUMED);
    orr_text out = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
    for (const char *p = w.text; *p != '\0' && orr_shell_spend(r, 1);) {
        if (*p == MARK_UNKNOWN) {
            orr_text_add(&out, mark_why(r, p));
        }
        if (is_mark(p)) {
            p += mark_length(p);
        } else {
            orr_text_addn(&out, p++, 1);
        }
    }
    (void)orr_shell_spend(r, out.length);
    word.text = orr_text_done(&out);
    return word;
}

shell_var *orr_shell_var(const reader *r, const char *name) {
    shell_var *var = (shell_var *)orr_map_get(&r->vars, name, strlen(name));
    return var != NULL && var->set ? var : NULL;
}

static shell_var *var_slot(reader *r, const char *name) {
    shell_var *var = (shell_var *)orr_map_get(&r->vars, name, strlen(name));
    if (var == NULL) {
        var = ORR_NEW(r->arena, shell_var);
        var->name = orr_arena_text(r->arena, name);
        orr_map_put(&r->vars, r->arena, name, strlen(name), var);
        if (r->var_count == r->var_capacity) {
            size_t capacity = r->var_capacity == 0 ? 64 : r->var_capacity * 2;
            shell_var **list = ORR_NEW_ARRAY(r->arena, shell_var *, capacity);
            if (r->var_count > 0) {
                memcpy(list, r->var, r->var_count * sizeof *list);
            }
            r->var = list;
            r->var_capacity = capacity;
        }
        r->var[r->var_count++] = var;
        (void)orr_shell_spend(r, 128);
    }
    return var;
}

/* In an undecided branch a value says so; one that is unknown there leaves a known one in place. */
static bool qualify(reader *r, const shell_var *var, raw_words *value) {
    if (r->undecided == 0) {
        return true;
    }
    const char *why = orr_arena_format(r->arena,
                                       "the branch at line %u, which the script alone "
                                       "does not decide",
                                       r->undecided_line);
    raw_words marked = {0};
    for (size_t i = 0; i < value->count && going(r); i++) {
        const char *text = value->at[i].text;
        if (strchr(text, MARK_UNKNOWN) != NULL && var->set) {
            return false;
        }
        orr_text out = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
        if (orr_shell_spend(r, strlen(text) + MARK_BYTES)) {
            orr_shell_mark(r, &out, MARK_ASSUMED, why);
            orr_text_add(&out, text);
        }
        orr_shell_add(r, &marked, orr_text_done(&out), value->at[i].line);
    }
    *value = marked;
    return true;
}

void orr_shell_set(reader *r, const char *name, raw_words value, bool array) {
    if (r->inactive > 0 || !going(r)) {
        return;
    }
    shell_var *var = var_slot(r, name);
    if (qualify(r, var, &value)) {
        *var = (shell_var){.name = var->name, .set = true, .array = array, .value = value};
    }
}

void orr_shell_append(reader *r, const char *name, raw_words value, bool array) {
    if (r->inactive > 0 || !going(r)) {
        return;
    }
    shell_var *var = var_slot(r, name);
    if (!qualify(r, &(shell_var){0}, &value)) {
        return;
    }
    if (array || var->array) {
        for (size_t i = 0; i < value.count; i++) {
            orr_shell_add(r, &var->value, value.at[i].text, value.at[i].line);
        }
        var->array = true;
    } else {
        const char *old = var->set && var->value.count > 0 ? var->value.at[0].text : "";
        const char *more = value.count > 0 ? value.at[0].text : "";
        uint32_t line = var->set && var->value.count > 0 ? var->value.at[0].line : r->line;
        if (orr_shell_spend(r, strlen(old) + strlen(more))) {
            raw_words joined = {0};
            orr_shell_add(r, &joined, orr_arena_format(r->arena, "%s%s", old, more), line);
            var->value = joined;
        }
    }
    var->set = true;
}

void orr_shell_remark(reader *r, uint32_t line, const char *format, ...) {
    if (r->inactive > 0 || r->note_count >= 1024) {
        return;
    }
    if (r->note_count == r->note_capacity) {
        size_t capacity = r->note_capacity == 0 ? 8 : r->note_capacity * 2;
        orr_shell_note *note = ORR_NEW_ARRAY(r->arena, orr_shell_note, capacity);
        if (r->note_count > 0) {
            memcpy(note, r->note, r->note_count * sizeof *note);
        }
        r->note = note;
        r->note_capacity = capacity;
    }
    va_list args;
    va_start(args, format);
    r->note[r->note_count++] =
        (orr_shell_note){.line = line, .text = orr_arena_vformat(r->arena, format, args)};
    va_end(args);
}
