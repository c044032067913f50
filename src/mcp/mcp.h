/* The Model Context Protocol server: every command of the library as a tool of anyone's agent.
 *
 * A session takes lines and gives lines (JSON-RPC 2.0, one object a line); whoever owns the streams
 * moves them. Both eras of the protocol are spoken: `initialize` with 2025-11-25, 2025-06-18 and
 * 2024-11-05, and the stateless 2026-07-28, told apart request by request. It is a front end: it
 * sees the public headers alone. modelcontextprotocol.io/specification. */
#ifndef ORR_MCP_H
#define ORR_MCP_H

#include "orrery/orrery.h"

enum { MCP_MAX_LINE = 1 << 20 }; /* bytes of a request; a longer one is an error */

typedef void (*mcp_write_fn)(void *user, const char *line); /* without the newline */
/* While a command runs: hand what has arrived to mcp_glance, and return. May be NULL. */
typedef void (*mcp_poll_fn)(void *user);

typedef struct mcp_session {
    orr_ctx *ctx;
    mcp_write_fn write;
    mcp_poll_fn poll;
    void *user;
    orr_arena *kept; /* lives as long as the session */
    const orr_tree *commands;
    /* the request that runs now */
    orr_arena *arena;
    const orr_tree *id, *progress_token; /* NULL: none */
    double progress;                     /* last one told */
    bool modern, cancelled;
} mcp_session;

void mcp_open(mcp_session *session, orr_ctx *ctx, mcp_write_fn write, mcp_poll_fn poll, void *user);
void mcp_close(mcp_session *session);
/* Answers one line, which may be anything. */
void mcp_line(mcp_session *session, const char *line, size_t length);
/* Looks at a line that arrived while a command runs; only a cancellation of that command matters.
 */
void mcp_glance(mcp_session *session, const char *line, size_t length);
/* Says that a line was too long to be read. */
void mcp_too_long(mcp_session *session);

#endif
