/* Past what is not read: quotes and brackets of a script, with what lies between. */
#include "exchange/shell_int.h"

void orr_shell_skip_single(reader *r) {
    uint32_t line = r->line;
    orr_shell_step(r);
    while (r->pos < r->end && look(r, 0) != '\'') {
        orr_shell_step(r);
    }
    if (r->pos >= r->end) {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the quote ' opened here is never closed");
    }
    orr_shell_step(r);
}

static void skip_double(reader *r) {
    uint32_t line = r->line;
    orr_shell_step(r);
    while (going(r) && r->pos < r->end && look(r, 0) != '"') {
        if (look(r, 0) == '\\') {
            orr_shell_step(r);
            orr_shell_step(r);
        } else if (look(r, 0) == '$' && look(r, 1) == '(') {
            orr_shell_step(r);
            orr_shell_step(r);
            orr_shell_skip_parens(r);
        } else {
            orr_shell_step(r);
        }
    }
    if (r->pos >= r->end) {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the quote \" opened here is never closed");
    }
    orr_shell_step(r);
}

void orr_shell_skip_backquote(reader *r) {
    uint32_t line = r->line;
    orr_shell_step(r);
    while (r->pos < r->end && look(r, 0) != '`') {
        if (look(r, 0) == '\\') {
            orr_shell_step(r);
        }
        orr_shell_step(r);
    }
    if (r->pos >= r->end) {
        orr_shell_fail(r, ORR_E_SYNTAX, line, "the quote ` opened here is never closed");
    }
    orr_shell_step(r);
}

void orr_shell_skip_balanced(reader *r, char open, char close) {
    uint32_t line = r->line;
    if (!orr_shell_enter(r)) {
        return;
    }
    size_t level = 1;
    while (going(r) && r->pos < r->end && level > 0) {
        char c = look(r, 0);
        if (c == '\'') {
            orr_shell_skip_single(r);
        } else if (c == '"') {
            skip_double(r);
        } else if (c == '`') {
            orr_shell_skip_backquote(r);
        } else {
            if (c == '\\') {
                orr_shell_step(r);
            } else if (c == open) {
                level++;
            } else if (c == close) {
                level--;
            }
            orr_shell_step(r);
        }
    }
    if (level > 0) {
        orr_shell_fail(r, ORR_E_SYNTAX, line,
                       close == ')' ? "the parenthesis opened here is never closed"
                                    : "the brace opened here is never closed");
    }
    orr_shell_leave(r);
}

void orr_shell_skip_parens(reader *r) {
    orr_shell_skip_balanced(r, '(', ')');
}
