/* Inside of the shell reader. Values are texts with marks: MARK_UNKNOWN stands for a part that only
 * a run could tell, MARK_ASSUMED (zero width) for a dependence on something the text does not
 * settle; four letters after either are the index of its explanation. Neither byte survives from
 * the input, so marks cannot be forged. */
#ifndef ORR_EXCHANGE_SHELL_INT_H
#define ORR_EXCHANGE_SHELL_INT_H

#include "base/map.h"
#include "base/text.h"
#include "exchange/shell.h"

enum { MARK_UNKNOWN = 1, MARK_ASSUMED = 2, MARK_BYTES = 5, MAX_MARKS = 1 << 16 };

/* USUAL: an ordinary command, which succeeds unless something is wrong. */
typedef enum tri { NO = 0, YES = 1, MAYBE = 2, USUAL = 3 } tri;

typedef struct raw_word {
    const char *text; /* with marks */
    uint32_t line;
} raw_word;
typedef struct raw_words {
    raw_word *at;
    size_t count, capacity;
} raw_words;

typedef struct shell_var {
    const char *name;
    bool set, array;
    raw_words value; /* one element unless an array */
} shell_var;

typedef struct reader {
    orr_arena *arena;
    const char *name; /* of the script, for messages */
    const char *text;
    size_t pos, end;
    uint32_t line;
    orr_map vars;
    shell_var **var; /* the same, in order */
    size_t var_count, var_capacity;
    const orr_shell_options *options;
    const char **mark; /* explanations */
    size_t mark_count, mark_capacity;
    orr_shell_command *command;
    size_t command_count, command_capacity, word_count;
    orr_shell_note *note;
    size_t note_count, note_capacity;
    size_t expanded; /* bytes, against ORR_SHELL_MAX_EXPANSION */
    int depth;
    int inactive;  /* inside a branch that is not taken: nothing has an effect */
    int undecided; /* inside a branch that may be taken */
    uint32_t undecided_line;
    raw_words heredoc; /* delimiters whose text starts at the next line */
    orr_status status; /* sticky: the first failure ends everything */
    orr_err *err;
} reader;

/* Characters at the cursor; 0 at the end (the text holds no NUL). */
static inline char look(const reader *r, size_t ahead) {
    return r->pos + ahead < r->end ? r->text[r->pos + ahead] : '\0';
}
static inline bool going(const reader *r) {
    return r->status == ORR_OK;
}
void orr_shell_step(reader *r); /* one character on, counting lines */
void orr_shell_fail(reader *r, orr_status status, uint32_t line, const char *what);
bool orr_shell_enter(reader *r); /* one level deeper; false and a failure at the limit */
void orr_shell_leave(reader *r);
bool orr_shell_spend(reader *r, size_t bytes); /* false and a failure at the limit */

/* shell_value.c */
void orr_shell_add(reader *r, raw_words *words, const char *text, uint32_t line);
/* Appends the mark; the explanation is copied. */
void orr_shell_mark(reader *r, orr_text *out, char kind, const char *why);
const char *orr_shell_why(const reader *r, const char *text, char kind); /* explanation or NULL */
char *orr_shell_plain(reader *r, const char *text);     /* without marks of either kind */
orr_shell_word orr_shell_finish(reader *r, raw_word w); /* marks turned into the word's fields */
shell_var *orr_shell_var(const reader *r, const char *name); /* NULL when never set */
void orr_shell_set(reader *r, const char *name, raw_words value, bool array);
void orr_shell_append(reader *r, const char *name, raw_words value, bool array);
void orr_shell_remark(reader *r, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* shell_word.c */
static inline bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool is_name_char(char c) {
    return is_name_start(c) || (c >= '0' && c <= '9');
}
static inline bool is_blank(char c) {
    return c == ' ' || c == '\t';
}
static inline bool is_meta(char c) {
    return c == '\0' || is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' ||
           c == '>' || c == '(' || c == ')';
}
/* One word at the cursor into fields. split: unquoted expansions break at blanks. */
void orr_shell_word_read(reader *r, raw_words *out, bool split);
/* A value as an unquoted use would split it. */
void orr_shell_split(reader *r, raw_words *out, raw_word value);
/* Text up to the closing character, expanded as in double quotes; the cursor ends behind it. */
char *orr_shell_text_until(reader *r, char close);

/* shell_skip.c: from the cursor, on a quote, past its end. */
void orr_shell_skip_single(reader *r);
void orr_shell_skip_backquote(reader *r);
/* From behind the opener past the matching closer; quotes inside are respected. */
void orr_shell_skip_balanced(reader *r, char open, char close);
/* From the cursor (after an opening "$(" or "(") past the matching parenthesis. */
void orr_shell_skip_parens(reader *r);

/* shell_simple.c: what stands between words, and commands without a grammar of their own. */
void orr_shell_skip_blanks(reader *r);
void orr_shell_skip_newlines(reader *r);
void orr_shell_skip_separators(reader *r);
bool orr_shell_at_word(const reader *r, const char *text);
bool orr_shell_take_word(reader *r, const char *text);
bool orr_shell_at_stop(const reader *r, const char *const *stops);
bool orr_shell_at_redirect(const reader *r);
void orr_shell_redirect(reader *r);
tri orr_shell_simple(reader *r);

/* shell.c: a list of commands up to one of the stop words (which stays), a closing parenthesis,
 * ";;" or the end; a script's text without bytes that would be marks. */
tri orr_shell_list(reader *r, const char *const *stops);
char *orr_shell_clean(orr_arena *arena, const char *text, size_t *length);

/* shell_arith.c: evaluates an expression whose $-expansions are done; the result is a text with
 * marks. value (may be NULL) gets the number when known. */
char *orr_shell_arith(reader *r, const char *expression, const char *source, int64_t *value,
                      bool *known);

/* shell_test.c: words between the brackets. */
tri orr_shell_test(reader *r, const raw_words *words, bool extended, uint32_t line);

#endif
