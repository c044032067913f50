/* `orrery mcp`: the protocol server on stdin and stdout. Lines that arrive while a command runs
 * stay in the buffer, which is also the limit of what may wait. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mcp/mcp.h"

typedef struct lines {
    char bytes[MCP_MAX_LINE + 1];
    size_t start, end; /* what has not been answered */
    size_t glanced;    /* up to here a running command has looked */
    bool ended, skipping;
    mcp_session session;
} lines;

static void compact(lines *in) {
    if (in->start > 0) {
        memmove(in->bytes, in->bytes + in->start, in->end - in->start);
        in->end -= in->start;
        in->glanced -= in->glanced < in->start ? in->glanced : in->start;
        in->start = 0;
    }
}

/* Reads what is there; waits for it when asked to. */
static void fill(lines *in, bool wait) {
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (in->ended || (!wait && poll(&ready, 1, 0) <= 0)) {
        return;
    }
    compact(in);
    if (in->end < sizeof in->bytes) {
        ssize_t n = read(STDIN_FILENO, in->bytes + in->end, sizeof in->bytes - in->end);
        in->ended = n <= 0;
        in->end += n > 0 ? (size_t)n : 0;
    }
}

static void write_line(void *user, const char *line) {
    (void)user;
    fputs(line, stdout);
    fputc('\n', stdout);
    (void)fflush(stdout);
}

static void look(void *user) {
    lines *in = (lines *)user;
    fill(in, false);
    if (in->glanced < in->start) {
        in->glanced = in->start;
    }
    for (char *end; (end = memchr(in->bytes + in->glanced, '\n', in->end - in->glanced)) != NULL;) {
        mcp_glance(&in->session, in->bytes + in->glanced,
                   (size_t)(end - (in->bytes + in->glanced)));
        in->glanced = (size_t)(end - in->bytes) + 1;
    }
}

/* Answers the next whole line; false when there is none yet. The line is copied out of the way of
 * what arrives meanwhile. */
static bool answer_next(lines *in) {
    char *from = in->bytes + in->start, *end = memchr(from, '\n', in->end - in->start);
    if (end == NULL && in->ended && in->end > in->start && !in->skipping) {
        end = in->bytes + in->end; /* the last line may lack its newline */
    }
    if (end == NULL) {
        if (in->end - in->start > MCP_MAX_LINE) {
            if (!in->skipping) {
                mcp_too_long(&in->session);
            }
            in->skipping = true;
            in->start = in->end;
        }
        return false;
    }
    size_t length = (size_t)(end - from);
    in->start = in->start + length < in->end ? in->start + length + 1 : in->end;
    if (in->skipping) {
        in->skipping = false;
        return true;
    }
    orr_arena *arena = orr_arena_new();
    const char *line = orr_tree_text(orr_tree_new_textn(arena, from, length), "");
    mcp_line(&in->session, line, length);
    orr_arena_free(arena);
    return true;
}

int cli_serve_mcp(cli *self) {
    lines in;
    memset(&in, 0, sizeof in);
    mcp_open(&in.session, self->ctx, write_line, look, &in);
    for (;;) {
        while (answer_next(&in)) {
        }
        if (in.ended) {
            break;
        }
        fill(&in, true);
    }
    mcp_close(&in.session);
    return ferror(stdout) ? EXIT_RUNTIME : EXIT_FINE;
}
