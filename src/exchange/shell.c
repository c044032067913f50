/* Grammar of the shell reader: lists, compound commands, assignments, simple commands. */
#include "exchange/shell.h"

#include <string.h>

#include "base/err.h"
#include "exchange/shell_int.h"

static tri list_read(reader *r, const char *const *stops);

/* ---- between words -------------------------------------------------------------------------- */

static void skip_comment(reader *r) {
    while (r->pos < r->end && look(r, 0) != '\n') {
        r->pos++;
    }
}

static void skip_blanks(reader *r) {
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

static void skip_separators(reader *r) {
    for (;;) {
        skip_blanks(r);
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
static void skip_newlines(reader *r) {
    for (;;) {
        skip_blanks(r);
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
static bool at_word(const reader *r, const char *text) {
    size_t n = strlen(text);
    return r->end - r->pos >= n && memcmp(r->text + r->pos, text, n) == 0 && is_meta(look(r, n));
}

static bool take_word(reader *r, const char *text) {
    if (!at_word(r, text)) {
        return false;
    }
    r->pos += strlen(text);
    return true;
}

static bool at_stop(const reader *r, const char *const *stops) {
    if (look(r, 0) == ')' || (look(r, 0) == ';' && look(r, 1) == ';')) {
        return true;
    }
    for (; *stops != NULL; stops++) {
        if (at_word(r, *stops)) {
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
        skip_newlines(r);
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

static char *clean(orr_arena *arena, const char *text, size_t *length);

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
        status = list_read(r, none);
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
    (void)read_again(r, clean(r->arena, text, &length));
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

static void read_redirect(reader *r) {
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
    skip_blanks(r);
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

static bool at_redirect(const reader *r) {
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

static tri simple_read(reader *r) {
    raw_words words = {0};
    saved_var saved[MAX_SAVED];
    size_t saved_count = 0;
    bool declares = false;
    for (;;) {
        skip_blanks(r);
        bool appends;
        size_t target;
        if (!going(r) || r->pos >= r->end) {
            break;
        }
        if (look(r, 0) == '#') {
            skip_comment(r);
        } else if ((target = placeholder(r)) > 0) {
            read_placeholder(r, &words, target);
        } else if (at_redirect(r)) {
            read_redirect(r);
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

/* ---- compound commands ---------------------------------------------------------------------- */

/* Reads a body that runs if `condition` is YES. */
static void branch_read(reader *r, tri condition, uint32_t line, const char *const *stops) {
    uint32_t outer = r->undecided_line;
    r->inactive += condition == NO;
    if (condition == MAYBE) {
        r->undecided_line = r->undecided == 0 ? line : outer;
        r->undecided++;
    }
    (void)list_read(r, stops);
    r->inactive -= condition == NO;
    r->undecided -= condition == MAYBE;
    r->undecided_line = outer;
}

static tri negated(tri t) {
    return t == MAYBE || t == USUAL ? MAYBE : t == YES ? NO : YES;
}
static tri and_also(tri a, tri b) {
    return a == NO || b == NO ? NO : a == YES && b == YES ? YES : MAYBE;
}

static void if_read(reader *r) {
    static const char *const then_stop[] = {"then", NULL};
    static const char *const body_stop[] = {"elif", "else", "fi", NULL};
    uint32_t line = r->line;
    tri open = YES; /* no earlier branch was taken */
    while (going(r)) {
        tri condition = list_read(r, then_stop);
        condition = condition == USUAL ? MAYBE : condition;
        (void)take_word(r, "then");
        branch_read(r, and_also(open, condition), line, body_stop);
        open = and_also(open, negated(condition));
        if (!take_word(r, "elif")) {
            break;
        }
    }
    if (take_word(r, "else")) {
        branch_read(r, open, line, body_stop);
    }
    (void)take_word(r, "fi");
}

static void loop_body(reader *r, tri runs, uint32_t line) {
    static const char *const do_stop[] = {"do", NULL};
    static const char *const done_stop[] = {"done", NULL};
    (void)list_read(r, do_stop);
    (void)take_word(r, "do");
    branch_read(r, runs, line, done_stop);
    (void)take_word(r, "done");
}

static void while_read(reader *r, bool until) {
    static const char *const do_stop[] = {"do", NULL};
    uint32_t line = r->line;
    tri condition = list_read(r, do_stop);
    condition = until ? negated(condition) : condition;
    loop_body(r, condition == NO ? NO : MAYBE, line);
}

static void for_read(reader *r) {
    uint32_t line = r->line;
    skip_blanks(r);
    if (look(r, 0) == '(') {
        orr_shell_step(r);
        orr_shell_skip_parens(r);
        loop_body(r, MAYBE, line);
        return;
    }
    raw_words name = {0}, items = {0};
    orr_shell_word_read(r, &name, false);
    skip_newlines(r);
    bool listed = take_word(r, "in");
    while (listed && going(r)) {
        skip_blanks(r);
        if (is_meta(look(r, 0))) {
            break;
        }
        size_t before = r->pos;
        orr_shell_word_read(r, &items, true);
        if (r->pos == before) {
            break;
        }
    }
    if (r->inactive == 0 && name.count > 0 && is_name_start(name.at[0].text[0])) {
        const char *variable = orr_shell_plain(r, name.at[0].text);
        raw_words value = {0};
        if (items.count == 1) {
            orr_shell_add(r, &value, items.at[0].text, line);
        } else {
            orr_text text = orr_text_new(r->arena, 4096);
            orr_shell_mark(
                r, &text, MARK_UNKNOWN,
                orr_arena_format(r->arena, "$%s of the loop at line %u", variable, line));
            orr_shell_add(r, &value, orr_text_done(&text), line);
            orr_shell_remark(r, line, "the loop's body is read once, with $%s unknown", variable);
        }
        orr_shell_set(r, variable, value, false);
    }
    loop_body(r, listed && items.count == 0 ? NO : YES, line);
}

/* Whether the subject matches one of the patterns up to ")". */
static tri pattern_read(reader *r, const char *subject) {
    tri match = NO;
    skip_newlines(r);
    if (look(r, 0) == '(') {
        orr_shell_step(r);
    }
    while (going(r) && r->pos < r->end && look(r, 0) != ')') {
        skip_blanks(r);
        raw_words words = {0};
        size_t before = r->pos;
        if (!is_meta(look(r, 0))) {
            orr_shell_word_read(r, &words, false);
        }
        if (words.count > 0 && r->inactive == 0) {
            const char *pattern = words.at[0].text;
            bool known = strchr(pattern, MARK_UNKNOWN) == NULL && subject != NULL;
            tri one = strcmp(pattern, "*") == 0                               ? YES
                      : !known                                                ? MAYBE
                      : orr_shell_match(orr_shell_plain(r, pattern), subject) ? YES
                                                                              : NO;
            match = match == YES || one == YES ? YES : match == MAYBE || one == MAYBE ? MAYBE : NO;
        }
        skip_newlines(r);
        if (look(r, 0) == '|' || r->pos == before) {
            orr_shell_step(r);
        }
    }
    orr_shell_step(r);
    return match;
}

static void case_read(reader *r) {
    static const char *const stops[] = {"esac", NULL};
    uint32_t line = r->line;
    skip_blanks(r);
    raw_words words = {0};
    orr_shell_word_read(r, &words, false);
    skip_newlines(r);
    (void)take_word(r, "in");
    const char *subject = NULL;
    if (words.count > 0 && r->inactive == 0 && strchr(words.at[0].text, MARK_UNKNOWN) == NULL) {
        subject = orr_shell_plain(r, words.at[0].text);
        const char *assumed = orr_shell_why(r, words.at[0].text, MARK_ASSUMED);
        if (assumed != NULL) {
            orr_shell_remark(r, line, "the case is decided by %s", assumed);
        }
    }
    tri open = YES;
    for (;;) {
        skip_newlines(r);
        if (!going(r) || r->pos >= r->end || take_word(r, "esac")) {
            return;
        }
        tri match = pattern_read(r, subject);
        branch_read(r, and_also(open, match), line, stops);
        open = and_also(open, negated(match));
        while (look(r, 0) == ';' || look(r, 0) == '&') {
            orr_shell_step(r);
        }
        if (look(r, 0) == ')') {
            orr_shell_step(r);
        }
    }
}

static tri double_bracket_read(reader *r) {
    raw_words words = {0};
    uint32_t line = r->line;
    while (going(r) && r->pos < r->end) {
        skip_newlines(r);
        if (take_word(r, "]]") || r->pos >= r->end) {
            break;
        }
        char c = look(r, 0);
        if (is_meta(c)) {
            size_t n = (c == '&' || c == '|') && look(r, 1) == c ? 2 : 1;
            orr_shell_add(r, &words, orr_arena_copy(r->arena, r->text + r->pos, n), r->line);
            r->pos += n;
        } else {
            size_t before = r->pos, count = words.count;
            orr_shell_word_read(r, &words, false);
            if (words.count == count && r->pos > before) {
                orr_shell_add(r, &words, "", r->line);
            }
            if (r->pos == before) {
                orr_shell_step(r);
            }
        }
    }
    return orr_shell_test(r, &words, true, line);
}

static tri arithmetic_command(reader *r) {
    size_t start = r->pos + 2;
    r->pos += 2;
    orr_shell_skip_parens(r); /* to the inner parenthesis */
    if (!going(r) || r->pos < start + 1) {
        return MAYBE;
    }
    size_t length = r->pos - 1 - start;
    if (look(r, 0) == ')') {
        orr_shell_step(r);
    }
    if (r->inactive > 0) {
        return MAYBE;
    }
    size_t pos = r->pos, end = r->end;
    uint32_t line = r->line;
    r->pos = start;
    r->end = start + length;
    char *expression = orr_shell_text_until(r, '\0');
    r->pos = going(r) ? pos : end;
    r->end = end;
    r->line = line;
    int64_t value;
    bool known;
    (void)orr_shell_arith(r, expression, "(( ))", &value, &known);
    return !known ? MAYBE : value != 0 ? YES : NO;
}

/* NAME() at the cursor: its length, else 0. */
static size_t function_head(const reader *r) {
    size_t n = 0;
    while (is_name_char(look(r, n)) || look(r, n) == '-') {
        n++;
    }
    size_t name = n;
    while (is_blank(look(r, n))) {
        n++;
    }
    if (name == 0 || look(r, n) != '(') {
        return 0;
    }
    n++;
    while (is_blank(look(r, n))) {
        n++;
    }
    return look(r, n) == ')' ? n + 1 : 0;
}

static tri command_read(reader *r) {
    static const char *const brace_stop[] = {"}", NULL};
    static const char *const none[] = {NULL};
    uint32_t line = r->line;
    tri status = YES;
    size_t head;
    if (take_word(r, "if")) {
        if_read(r);
    } else if (take_word(r, "while")) {
        while_read(r, false);
    } else if (take_word(r, "until")) {
        while_read(r, true);
    } else if (take_word(r, "for") || take_word(r, "select")) {
        for_read(r);
    } else if (take_word(r, "case")) {
        case_read(r);
    } else if (take_word(r, "[[")) {
        return double_bracket_read(r);
    } else if (take_word(r, "{")) {
        status = list_read(r, brace_stop);
        (void)take_word(r, "}");
    } else if (look(r, 0) == '(' && look(r, 1) == '(') {
        return arithmetic_command(r);
    } else if (look(r, 0) == '(') {
        orr_shell_step(r);
        status = list_read(r, none);
        if (look(r, 0) == ')') {
            orr_shell_step(r);
        }
    } else if (take_word(r, "function")) {
        skip_blanks(r);
        raw_words name = {0};
        orr_shell_word_read(r, &name, false);
        head = look(r, 0) == '(' && look(r, 1) == ')' ? 2 : 0;
        r->pos += head;
        skip_newlines(r);
        orr_shell_remark(r, line, "the function's body is read where it stands");
        if (r->pos < r->end && orr_shell_enter(r)) {
            status = command_read(r);
            orr_shell_leave(r);
        }
    } else if ((head = function_head(r)) > 0) {
        r->pos += head;
        skip_newlines(r);
        orr_shell_remark(r, line, "the function's body is read where it stands");
        if (r->pos < r->end && orr_shell_enter(r)) {
            status = command_read(r);
            orr_shell_leave(r);
        }
    } else {
        return simple_read(r);
    }
    while (skip_blanks(r), at_redirect(r) && going(r) && r->pos < r->end) {
        read_redirect(r);
    }
    return status;
}

static tri pipeline_read(reader *r) {
    bool inverted = false;
    while (skip_blanks(r), at_word(r, "!") || at_word(r, "time")) {
        inverted ^= take_word(r, "!");
        (void)take_word(r, "time");
    }
    if (!orr_shell_enter(r)) {
        return MAYBE;
    }
    tri status = command_read(r);
    while (skip_blanks(r), look(r, 0) == '|' && look(r, 1) != '|' && going(r)) {
        orr_shell_step(r);
        if (look(r, 0) == '&') {
            orr_shell_step(r);
        }
        skip_newlines(r);
        status = command_read(r);
    }
    orr_shell_leave(r);
    return inverted ? negated(status) : status;
}

static tri and_or_read(reader *r) {
    uint32_t line = r->line;
    tri status = pipeline_read(r);
    while (skip_blanks(r),
           (look(r, 0) == '&' || look(r, 0) == '|') && look(r, 1) == look(r, 0) && going(r)) {
        bool both = look(r, 0) == '&';
        tri runs = status == USUAL ? (both ? YES : NO) : both ? status : negated(status);
        r->pos += 2;
        skip_newlines(r);
        uint32_t outer = r->undecided_line;
        r->inactive += runs == NO;
        if (runs == MAYBE) {
            r->undecided_line = r->undecided == 0 ? line : outer;
            r->undecided++;
        }
        tri next = pipeline_read(r);
        r->inactive -= runs == NO;
        r->undecided -= runs == MAYBE;
        r->undecided_line = outer;
        status = runs == YES ? next : runs == NO ? status : MAYBE;
    }
    return status;
}

/* Up to one of the stop words (which stays), a closing parenthesis, ";;" or the end. */
static tri list_read(reader *r, const char *const *stops) {
    tri status = YES;
    if (!orr_shell_enter(r)) {
        return MAYBE;
    }
    for (;;) {
        skip_separators(r);
        if (!going(r) || r->pos >= r->end || at_stop(r, stops)) {
            break;
        }
        size_t before = r->pos;
        status = and_or_read(r);
        if (r->pos == before) {
            orr_shell_step(r);
        }
    }
    orr_shell_leave(r);
    return status;
}

/* ---- entry ---------------------------------------------------------------------------------- */

/* A copy without carriage returns before line ends and without control bytes, so that marks are
 * ours alone. */
static char *clean(orr_arena *arena, const char *text, size_t *length) {
    char *copy = orr_arena_copy(arena, text, *length);
    size_t n = 0;
    for (size_t i = 0; i < *length; i++) {
        char c = text[i];
        if (c == '\r' && i + 1 < *length && text[i + 1] == '\n') {
            continue;
        }
        copy[n++] = (unsigned char)c < 32 && c != '\n' && c != '\t' ? '?' : c;
    }
    copy[n] = '\0';
    *length = n;
    return copy;
}

static const orr_shell_variable *variables(reader *r, size_t *count) {
    orr_shell_variable *list = ORR_NEW_ARRAY(r->arena, orr_shell_variable, r->var_count + 1);
    *count = 0;
    for (size_t i = 0; i < r->var_count && going(r); i++) {
        const shell_var *var = r->var[i];
        raw_words fields = {0};
        for (size_t k = 0; var->set && k < var->value.count && going(r); k++) {
            orr_shell_split(r, &fields, var->value.at[k]);
        }
        orr_shell_word *word = ORR_NEW_ARRAY(r->arena, orr_shell_word, fields.count + 1);
        for (size_t k = 0; k < fields.count; k++) {
            word[k] = orr_shell_finish(r, fields.at[k]);
        }
        list[(*count)++] =
            (orr_shell_variable){.name = var->name, .word = word, .count = fields.count};
    }
    return list;
}

orr_status orr_shell_read(orr_arena *arena, const orr_shell_options *options, const char *text,
                          size_t length, orr_shell *out, orr_err *err) {
    static const orr_shell_options nothing = {0};
    options = options != NULL ? options : &nothing;
    if (length > ORR_SHELL_MAX_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "a shell script of %zu bytes is too large: at most %d",
                        length, (int)ORR_SHELL_MAX_BYTES);
    }
    reader r = {.arena = arena,
                .name = options->name,
                .options = options,
                .line = 1,
                .err = err,
                .status = ORR_OK};
    r.text = clean(arena, text, &length);
    r.end = length;
    for (size_t i = 0; i < options->given_count; i++) {
        raw_words value = {0};
        orr_shell_add(&r, &value, options->given[i].value, 1);
        orr_shell_set(&r, options->given[i].name, value, false);
    }
    static const char *const none[] = {NULL};
    while (going(&r) && r.pos < r.end) {
        (void)list_read(&r, none);
        orr_shell_step(&r); /* a stray closer */
    }
    *out = (orr_shell){.command = r.command,
                       .command_count = r.command_count,
                       .note = r.note,
                       .note_count = r.note_count};
    out->variable = variables(&r, &out->variable_count);
    orr_map_release(&r.vars);
    return r.status;
}
