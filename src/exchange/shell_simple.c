/* Between words, assignments and simple commands. */
#include "exchange/shell.h"

#include <string.h>

#include "base/err.h"
#include "exchange/shell_int.h"

/* ---- between words -------------------------------------------------------------------------- */

static void skip_comment(reader *r) {
    while (r->pos < r->end && look(r, 0) != '\n') {
        r->pos++;
    }
}

void orr_shell_skip_blanks(reader *r) {
    for (;;) {
        if (is_blank(look(r, 0))) {
            orr_shell_step(r);
        } else if (look(r, 0) == '\\' && look(r, 1) == '\n') {
            orr_shell_step(r);
            orr_shell_step(r);
        } else {
            return;
        }
    }
}

/* The here-documents announced on the line that just ended. */
static void skip_heredocs(reader *r) {
    for (size_t i = 0; i < r->heredoc.count; i++) {
        const char *mark = r->heredoc.at[i].text;
        orr_shell_remark(r, r->heredoc.at[i].line, "the here-document is not read");
        bool found = false;
        while (!found && r->pos < r->end) {
            size_t start = r->pos;
            skip_comment(r);
            size_t length = r->pos - start;
            while (length > 0 && r->text[start] == '\t') {
                start++;
                length--;
            }
            found = strlen(mark) == length && memcmp(mark, r->text + start, length) == 0;
            orr_shell_step(r);
        }
    }
    r->heredoc.count = 0;
}

static void newline(reader *r) {
    orr_shell_step(r);
    if (r->heredoc.count > 0) {
        skip_heredocs(r);
    }
}

void orr_shell_skip_separators(reader *r) {
    for (;;) {
        orr_shell_skip_blanks(r);
        char c = look(r, 0);
        if (c == '#') {
            skip_comment(r);
        } else if (c == '\n') {
            newline(r);
        } else if ((c == ';' && look(r, 1) != ';') || (c == '&' && look(r, 1) != '&')) {
            orr_shell_step(r);
        } else {
            return;
        }
    }
}

/* Blank lines, as allowed after && and before "do". */
void orr_shell_skip_newlines(reader *r) {
    for (;;) {
        orr_shell_skip_blanks(r);
        if (look(r, 0) == '#') {
            skip_comment(r);
        } else if (look(r, 0) == '\n') {
            newline(r);
        } else {
            return;
        }
    }
}

/* Whether the plain word `text` stands at the cursor. */
bool orr_shell_at_word(const reader *r, const char *text) {
    size_t n = strlen(text);
    return r->end - r->pos >= n && memcmp(r->text + r->pos, text, n) == 0 && is_meta(look(r, n));
}

bool orr_shell_take_word(reader *r, const char *text) {
    if (!orr_shell_at_word(r, text)) {
        return false;
    }
    r->pos += strlen(text);
    return true;
}

bool orr_shell_at_stop(const reader *r, const char *const *stops) {
    if (look(r, 0) == ')' || (look(r, 0) == ';' && look(r, 1) == ';')) {
        return true;
    }
    for (; *stops != NULL; stops++) {
        if (orr_shell_at_word(r, *stops)) {
            return true;
        }
    }
    return false;
}

/* ---- assignments ---------------------------------------------------------------------------- */

/* Length of NAME, NAME[index] at the cursor when "=" or "+=" follows, else 0. */
static size_t assignment_target(const reader *r, bool *appends) {
    size_t n = 0;
    if (!is_name_start(look(r, 0))) {
        return 0;
    }
    while (is_name_char(look(r, n))) {
        n++;
    }
    if (look(r, n) == '[') {
        while (look(r, n) != ']' && look(r, n) != '\n' && look(r, n) != '\0') {
            n++;
        }
        n += look(r, n) == ']';
    }
    *appends = look(r, n) == '+' && look(r, n + 1) == '=';
    return *appends || look(r, n) == '=' ? n : 0;
}

static void read_array(reader *r, raw_words *out) {
    uint32_t line = r->line;
    orr_shell_step(r);
    for (;;) {
        orr_shell_skip_newlines(r);
        char c = look(r, 0);
        if (!going(r) || c == ')' || r->pos >= r->end) {
            break;
        }
        size_t before = r->pos;
        if (!is_meta(c)) {
            orr_shell_word_read(r, out, true);
        }
        if (r->pos == before) {
            orr_shell_step(r);
        }
    }
    if (r->pos >= r->end) {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the array opened here is never closed");
    }
    orr_shell_step(r);
}

typedef struct saved_var {
    const char *name;
    shell_var before;
    bool existed;
} saved_var;
enum { MAX_SAVED = 64 };

static void read_assignment(reader *r, size_t target, bool appends, saved_var *saved,
                            size_t *saved_count) {
    uint32_t line = r->line;
    const char *name = orr_arena_copy(r->arena, r->text + r->pos, target);
    char *bracket = strchr(name, '[');
    r->pos += target + (appends ? 2 : 1);
    raw_words value = {0};
    bool array = look(r, 0) == '(';
    if (array) {
        read_array(r, &value);
    } else {
        orr_shell_word_read(r, &value, false);
        if (value.count == 0) {
            orr_shell_add(r, &value, "", line);
        }
    }
    if (bracket != NULL) {
        /* One element: position matters little for arguments, so it is appended. */
        *bracket = '\0';
        appends = true;
        array = true;
    }
    if (!going(r) || r->inactive > 0) {
        return;
    }
    if (*saved_count < MAX_SAVED) {
        const shell_var *old = orr_shell_var(r, name);
        saved_var *s = &saved[(*saved_count)++];
        *s = (saved_var){.name = name, .existed = old != NULL};
        if (old != NULL) {
            s->before = *old;
        }
    }
    if (appends) {
        orr_shell_append(r, name, value, array);
    } else {
        orr_shell_set(r, name, value, array);
    }
}

/* Assignments before a command hold for that command alone. */
static void restore(reader *r, const saved_var *saved, size_t count) {
    while (count-- > 0) {
        shell_var *var = orr_shell_var(r, saved[count].name);
        if (var != NULL && saved[count].existed) {
            *var = saved[count].before;
        } else if (var != NULL) {
            var->set = false;
        }
    }
}

/* ---- simple commands ------------------------------------------------------------------------ */

static void record(reader *r, const raw_words *words) {
    if (r->inactive > 0 || words->count == 0 || !going(r)) {
        return;
    }
    r->word_count += words->count;
    if (r->word_count > ORR_SHELL_MAX_WORDS) {
        orr_shell_fail(r, ORR_E_LIMIT, r->line, "the script's commands have too many words");
        return;
    }
    if (r->command_count == r->command_capacity) {
        size_t capacity = r->command_capacity == 0 ? 16 : r->command_capacity * 2;
        orr_shell_command *command = ORR_NEW_ARRAY(r->arena, orr_shell_command, capacity);
        if (r->command_count > 0) {
            memcpy(command, r->command, r->command_count * sizeof *command);
        }
        r->command = command;
        r->command_capacity = capacity;
    }
    orr_shell_word *word = ORR_NEW_ARRAY(r->arena, orr_shell_word, words->count);
    for (size_t i = 0; i < words->count; i++) {
        word[i] = orr_shell_finish(r, words->at[i]);
    }
    r->command[r->command_count++] = (orr_shell_command){.word = word,
                                                         .count = words->count,
                                                         .line = words->at[0].line,
                                                         .undecided = r->undecided > 0};
}

/* Reads a text that the script would have run as a command line. */
static tri read_again(reader *r, const char *text) {
    if (!orr_shell_spend(r, strlen(text)) || !orr_shell_enter(r)) {
        return MAYBE;
    }
    const char *outer = r->text;
    size_t pos = r->pos, end = r->end;
    uint32_t line = r->line;
    raw_words heredoc = r->heredoc;
    r->heredoc = (raw_words){0};
    r->text = text;
    r->pos = 0;
    r->end = strlen(text);
    static const char *const none[] = {NULL};
    tri status = YES;
    while (going(r) && r->pos < r->end) {
        status = orr_shell_list(r, none);
        orr_shell_step(r); /* a stray closer */
    }
    r->text = outer;
    r->pos = going(r) ? pos : end;
    r->end = end;
    r->line = line;
    r->heredoc = heredoc;
    orr_shell_leave(r);
    return status;
}

static tri builtin_eval(reader *r, const raw_words *words) {
    orr_text text = orr_text_new(r->arena, ORR_SHELL_MAX_EXPANSION);
    for (size_t i = 1; i < words->count && orr_shell_spend(r, strlen(words->at[i].text)); i++) {
        orr_text_add(&text, words->at[i].text);
        orr_text_add(&text, " ");
    }
    return read_again(r, orr_text_done(&text));
}

/* The text behind "bash -c" anywhere in a command (srun bash -c "..."), or NULL. */
static const char *inner_script(const raw_words *words) {
    for (size_t i = 0; i + 2 < words->count; i++) {
        const char *w = words->at[i].text;
        const char *slash = strrchr(w, '/');
        const char *base = slash != NULL ? slash + 1 : w;
        if (strcmp(base, "bash") == 0 || strcmp(base, "sh") == 0) {
            const char *option = words->at[i + 1].text;
            if (option[0] == '-' && option[1] != '-' && strchr(option, 'c') != NULL) {
                return words->at[i + 2].text;
            }
        }
    }
    return NULL;
}

static void builtin_read(reader *r, const raw_words *words) {
    for (size_t i = 1; i < words->count; i++) {
        const char *name = words->at[i].text;
        if (is_name_start(name[0])) {
            orr_text text = orr_text_new(r->arena, 4096);
            orr_shell_mark(r, &text, MARK_UNKNOWN, orr_arena_format(r->arena, "$%s", name));
            raw_words value = {0};
            orr_shell_add(r, &value, orr_text_done(&text), r->line);
            orr_shell_set(r, name, value, false);
        }
    }
}

/* A sourced file takes its place in the text; its lines count as the line that names it. */
static void source_file(reader *r, raw_word file) {
    orr_shell_word word = orr_shell_finish(r, file);
    const char *name = word.text;
    bool complete = word.unknown == NULL;
    if (!complete) { /* what stands behind the last unknown part */
        const char *mark = strrchr(file.text, MARK_UNKNOWN);
        name = orr_shell_plain(r, mark);
        name += strspn(name, "/");
    }
    size_t length = 0;
    const char *text = NULL;
    if (r->options->load != NULL && name[0] != '\0') {
        text = r->options->load(r->options->user, name, complete, &length);
    }
    if (text == NULL || length > ORR_SHELL_MAX_BYTES) {
        orr_shell_remark(r, file.line, "the file %s is not read", word.text);
        return;
    }
    if (!complete) {
        orr_shell_remark(r, file.line, "%s is taken to be %s beside the script", word.text, name);
    }
    (void)read_again(r, orr_shell_clean(r->arena, text, &length));
}

/* Commands that are run for their answer. */
static bool asks(const char *name) {
    static const char *const names[] = {"grep", "egrep", "command", "which", "type",
                                        "diff", "cmp",   "pgrep",   "hash",  "ping"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return strchr(name, MARK_UNKNOWN) != NULL;
}

static tri run_words(reader *r, raw_words *words) {
    const char *name = words->at[0].text;
    if (r->inactive > 0 || !going(r)) {
        return MAYBE;
    }
    if (strcmp(name, "[") == 0 || strcmp(name, "test") == 0) {
        raw_words inner = {.at = words->at + 1, .count = words->count - 1};
        if (name[0] == '[' && inner.count > 0) {
            inner.count--;
        }
        return orr_shell_test(r, &inner, false, words->at[0].line);
    }
    if (strcmp(name, "false") == 0) {
        return NO;
    }
    if (strcmp(name, "eval") == 0) {
        return builtin_eval(r, words);
    }
    if (strcmp(name, "let") == 0) {
        for (size_t i = 1; i < words->count; i++) {
            (void)orr_shell_arith(r, words->at[i].text, "let", NULL, NULL);
        }
        return MAYBE;
    }
    if (strcmp(name, "read") == 0) {
        builtin_read(r, words);
        return MAYBE;
    }
    if (strcmp(name, "unset") == 0) {
        for (size_t i = 1; i < words->count && r->undecided == 0; i++) {
            shell_var *var = orr_shell_var(r, words->at[i].text);
            if (var != NULL) {
                var->set = false;
            }
        }
        return YES;
    }
    if ((strcmp(name, "source") == 0 || strcmp(name, ".") == 0) && words->count > 1) {
        source_file(r, words->at[1]);
        return YES;
    }
    const char *script = inner_script(words);
    record(r, words);
    if (script != NULL) {
        (void)read_again(r, script);
    }
    return strcmp(name, ":") == 0 || strcmp(name, "true") == 0 ? YES : asks(name) ? MAYBE : USUAL;
}

void orr_shell_redirect(reader *r) {
    while (look(r, 0) >= '0' && look(r, 0) <= '9') {
        orr_shell_step(r);
    }
    if (look(r, 0) == '&') {
        orr_shell_step(r);
    }
    bool heredoc = look(r, 0) == '<' && look(r, 1) == '<' && look(r, 2) != '<';
    while (look(r, 0) == '<' || look(r, 0) == '>' || look(r, 0) == '&' || look(r, 0) == '|') {
        orr_shell_step(r);
    }
    if (heredoc && look(r, 0) == '-') {
        orr_shell_step(r);
    }
    orr_shell_skip_blanks(r);
    raw_words target = {0};
    uint32_t line = r->line;
    int inactive = r->inactive;
    r->inactive = heredoc ? 0 : inactive; /* the delimiter counts in a branch not taken too */
    orr_shell_word_read(r, &target, false);
    r->inactive = inactive;
    if (heredoc && target.count > 0) {
        orr_shell_add(r, &r->heredoc, target.at[0].text, line);
    }
}

/* "<PATH TO DATA>" of a template: no redirection was meant. */
static size_t placeholder(const reader *r) {
    size_t n = 1;
    if (look(r, 0) != '<' || !is_name_start(look(r, 1))) {
        return 0;
    }
    while (n < 80 && (is_name_char(look(r, n)) || look(r, n) == ' ' || look(r, n) == '-' ||
                      look(r, n) == '.' || look(r, n) == '/')) {
        n++;
    }
    return look(r, n) == '>' && look(r, n - 1) != ' ' ? n + 1 : 0;
}

static void read_placeholder(reader *r, raw_words *words, size_t length) {
    orr_text text = orr_text_new(r->arena, 4096);
    orr_shell_mark(r, &text, MARK_UNKNOWN, orr_arena_copy(r->arena, r->text + r->pos, length));
    orr_shell_add(r, words, orr_text_done(&text), r->line);
    r->pos += length;
}

bool orr_shell_at_redirect(const reader *r) {
    size_t n = 0;
    while (look(r, n) >= '0' && look(r, n) <= '9') {
        n++;
    }
    char c = look(r, n);
    if (n == 0 && c == '&') {
        return look(r, 1) == '>';
    }
    return (c == '<' || c == '>') && look(r, n + 1) != '(';
}

static bool is_declaration(const char *word) {
    static const char *const names[] = {"export", "declare", "local", "readonly", "typeset"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

tri orr_shell_simple(reader *r) {
    raw_words words = {0};
    saved_var saved[MAX_SAVED];
    size_t saved_count = 0;
    bool declares = false;
    for (;;) {
        orr_shell_skip_blanks(r);
        bool appends;
        size_t target;
        if (!going(r) || r->pos >= r->end) {
            break;
        }
        if (look(r, 0) == '#') {
            skip_comment(r);
        } else if ((target = placeholder(r)) > 0) {
            read_placeholder(r, &words, target);
        } else if (orr_shell_at_redirect(r)) {
            orr_shell_redirect(r);
        } else if (is_meta(look(r, 0)) && !(look(r, 0) == '<' || look(r, 0) == '>')) {
            break;
        } else if ((words.count == 0 || declares) &&
                   (target = assignment_target(r, &appends)) > 0) {
            read_assignment(r, target, appends, saved, &saved_count);
        } else {
            size_t before = r->pos;
            orr_shell_word_read(r, &words, true);
            declares = declares || (words.count == 1 && is_declaration(words.at[0].text));
            if (r->pos == before) {
                orr_shell_step(r);
            }
        }
    }
    if (words.count == 0 || declares) {
        return YES;
    }
    tri status = run_words(r, &words);
    restore(r, saved, saved_count);
    return status;
}
