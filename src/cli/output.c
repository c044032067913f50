#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static bool set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

bool cli_use_color(const cli *self, FILE *stream) {
    if (self->options.color != COLOR_AUTO) {
        return self->options.color == COLOR_ALWAYS;
    }
    const char *no_color = getenv("NO_COLOR"), *clicolor = getenv("CLICOLOR");
    const char *term = getenv("TERM");
    if ((no_color != NULL && no_color[0] != '\0') ||
        (clicolor != NULL && strcmp(clicolor, "0") == 0)) {
        return false;
    }
    if (set("FORCE_COLOR") || set("CLICOLOR_FORCE")) {
        return true;
    }
    return isatty(fileno(stream)) && term != NULL && strcmp(term, "dumb") != 0;
}

static bool plain_ascii(const cli *self) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    if (self->options.ascii) {
        return true;
    }
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strstr(value, "UTF-8") == NULL && strstr(value, "utf8") == NULL &&
                   strstr(value, "UTF8") == NULL && strstr(value, "utf-8") == NULL;
        }
    }
    return false;
}

static uint32_t terminal_width(const cli *self) {
    if (self->options.width != 0) {
        return self->options.width;
    }
    const char *columns = getenv("COLUMNS");
    long width = columns == NULL ? 0 : strtol(columns, NULL, 10);
    return width >= 40 && width <= 400 ? (uint32_t)width : 100;
}

static int exit_code(orr_status status) {
    switch (status) {
    case ORR_OK: return EXIT_FINE;
    case ORR_E_WRITE: return EXIT_RUNTIME;
    case ORR_E_IO: /* an input that cannot be read is an input error */
    case ORR_E_SYNTAX:
    case ORR_E_SCHEMA:
    case ORR_E_NAME:
    case ORR_E_CONFLICT:
    case ORR_E_LIMIT:
    case ORR_E_USAGE: return EXIT_INPUT;
    case ORR_E_INFEASIBLE:
    case ORR_E_SCHEDULE: return EXIT_INFEASIBLE;
    case ORR_E_CHECK: return EXIT_CHECK;
    case ORR_E_CANCELLED: return EXIT_INTERRUPTED;
    case ORR_E_INTERNAL: return EXIT_INTERNAL;
    }
    return EXIT_INTERNAL;
}

/* Bytes of the character at p, or 0 where it is none. */
static int utf8_length(const char *p) {
    unsigned char c = (unsigned char)*p;
    int length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
    for (int i = 1; i < length; i++) {
        if (((unsigned char)p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

/* The line of the input that an error points to, with a caret under the column. */
static void print_source_line(const orr_err *err) {
    FILE *file = fopen(err->file, "r");
    if (file == NULL) {
        return;
    }
    char line[240];
    uint32_t number = 1;
    while (fgets(line, sizeof line, file) != NULL) {
        bool whole = strchr(line, '\n') != NULL;
        if (number == err->line) {
            line[strcspn(line, "\r\n")] = '\0';
            for (char *p = line; *p != '\0';) {
                int length = utf8_length(p);
                if (length <= 1 && (length == 0 || (unsigned char)*p < ' ' || *p == 127)) {
                    *p = length == 0 ? '?' : ' ';
                }
                p += length == 0 ? 1 : length;
            }
            fprintf(stderr, "  %s\n", line);
            if (err->column > 0 && err->column < sizeof line) {
                fprintf(stderr, "  %*s^\n", (int)err->column - 1, "");
            }
            break;
        }
        number += whole ? 1 : 0;
    }
    (void)fclose(file);
}

static void print_error_json(const cli *self, const orr_err *err) {
    orr_tree *root = orr_tree_new_map(self->arena);
    orr_tree *error = orr_tree_put(self->arena, root, "error", orr_tree_new_map(self->arena));
    orr_tree_put_text(self->arena, error, "code", orr_status_name(err->status));
    orr_tree_put_text(self->arena, error, "message", err->message);
    orr_tree_put_text(self->arena, error, "hint", err->hint);
    orr_tree *span = orr_tree_put(self->arena, error, "span", orr_tree_new_map(self->arena));
    orr_tree_put_text(self->arena, span, "file", err->file);
    orr_tree_put_int(self->arena, span, "line", err->line);
    orr_tree_put_int(self->arena, span, "column", err->column);
    puts(orr_write_json(self->arena, root, true));
}

int cli_print_error(const cli *self, const orr_err *err) {
    if (self->options.json) {
        print_error_json(self, err);
    }
    bool color = cli_use_color(self, stderr);
    fputs("orrery: ", stderr);
    if (err->file[0] != '\0') {
        fprintf(stderr, "%s:", err->file);
        if (err->line > 0) {
            fprintf(stderr, "%u:", err->line);
        }
        if (err->column > 0) {
            fprintf(stderr, "%u:", err->column);
        }
        fputc(' ', stderr);
    }
    fprintf(stderr, "%serror%s: %s\n", color ? "\033[1;31m" : "", color ? "\033[0m" : "",
            err->message);
    if (err->file[0] != '\0' && err->line > 0) {
        print_source_line(err);
    }
    if (err->hint[0] != '\0') {
        fprintf(stderr, "%shelp%s: %s\n", color ? "\033[1;36m" : "", color ? "\033[0m" : "",
                err->hint);
    }
    return exit_code(err->status);
}

static void print_warnings(const cli *self, const orr_tree *envelope) {
    const orr_tree *warnings = orr_tree_get(envelope, "warnings");
    bool color = cli_use_color(self, stderr);
    for (size_t i = 0; i < orr_tree_size(warnings) && !self->options.quiet; i++) {
        const orr_tree *warning = orr_tree_at(warnings, i);
        fprintf(stderr, "orrery: %swarning%s: %s\n", color ? "\033[1;33m" : "",
                color ? "\033[0m" : "", orr_tree_text(orr_tree_get(warning, "message"), ""));
    }
}

/* Writes a whole file or nothing: a temporary beside it, then a rename. */
static bool write_through(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    bool good = fputs(text, file) != EOF;
    return fclose(file) == 0 && good;
}

static bool write_file(const char *name, const char *text) {
    char path[PATH_MAX], temporary[PATH_MAX + 32];
    struct stat status = {.st_mode = 0};
    bool there = stat(name, &status) == 0;
    if (there && !S_ISREG(status.st_mode)) {
        return write_through(name, text); /* a device or a pipe is never replaced */
    }
    /* A link keeps pointing where it does: its target is replaced. */
    if (!there || realpath(name, path) == NULL) {
        (void)snprintf(path, sizeof path, "%s", name);
    }
    int n = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return false;
    }
    bool good = write_through(temporary, text);
    good = good && (!there || chmod(temporary, status.st_mode & 07777) == 0);
    if (!good || rename(temporary, path) != 0) {
        int why = errno;
        (void)unlink(temporary);
        errno = why;
        return false;
    }
    return true;
}

/* 3 for a plan that is illegal, does not start or does not fit; 4 for a check that fell short; 5
 * and 6 for a network or a device that gave nothing. */
static int verdict_code(const orr_tree *envelope) {
    const orr_tree *verdict = orr_tree_path(envelope, "result.verdict");
    if (!orr_tree_bool(orr_tree_path(envelope, "check.passed"), true)) {
        return EXIT_CHECK;
    }
    if (orr_tree_bool(orr_tree_path(envelope, "result.interrupted"), false)) {
        return EXIT_INTERRUPTED;
    }
    const char *failed = orr_tree_text(orr_tree_path(envelope, "result.failed"), "");
    if (failed[0] != '\0') {
        return strcmp(failed, "network") == 0 ? EXIT_NETWORK : EXIT_DEVICE;
    }
    if (verdict == NULL) {
        return EXIT_FINE;
    }
    static const char *const keys[] = {"legal", "starts", "fits"};
    for (size_t i = 0; i < 3; i++) {
        if (!orr_tree_bool(orr_tree_get(verdict, keys[i]), true)) {
            return EXIT_INFEASIBLE;
        }
    }
    if (!orr_tree_bool(orr_tree_path(envelope, "result.passed"), true)) {
        return EXIT_CHECK;
    }
    return EXIT_FINE;
}

int cli_print_result(const cli *self, const orr_tree *envelope) {
    char *text = NULL;
    if (orr_tree_bool(orr_tree_path(envelope, "result.elsewhere"), false)) {
        return verdict_code(envelope); /* the first of several processes shows it */
    }
    if (self->options.json) {
        text = orr_write_json(self->arena, envelope, true);
    } else {
        orr_report_options options = {.width = terminal_width(self),
                                      .color = self->options.output == NULL &&
                                               cli_use_color(self, stdout),
                                      .ascii = plain_ascii(self),
                                      .verbose = self->options.verbose};
        text = orr_report_text(self->arena, envelope, &options);
    }
    print_warnings(self, envelope);
    if (self->options.output != NULL) {
        if (!write_file(self->options.output, text)) {
            fprintf(stderr, "orrery: error: cannot write %s: %s\n", self->options.output,
                    strerror(errno));
            return EXIT_RUNTIME;
        }
    } else {
        fputs(text, stdout);
        if (self->options.json) {
            fputc('\n', stdout);
        }
        if (fflush(stdout) != 0) {
            return EXIT_RUNTIME;
        }
    }
    return verdict_code(envelope);
}
