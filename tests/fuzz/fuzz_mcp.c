/* Any bytes, line by line: every answer is one line of JSON-RPC, and a request with an id that can
 * be read gets exactly one answer. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

static void check(void *user, const char *line) {
    size_t *answers = (size_t *)user;
    orr_arena *arena = orr_arena_new();
    orr_tree *message = NULL;
    orr_err err = {0};
    if (strchr(line, '\n') != NULL ||
        orr_read_text(arena, NULL, line, strlen(line), &message, &err) != ORR_OK ||
        strcmp(orr_tree_text(orr_tree_get(message, "jsonrpc"), ""), "2.0") != 0) {
        abort();
    }
    *answers += orr_tree_get(message, "id") != NULL;
    orr_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static orr_ctx *ctx;
    static size_t answers;
    mcp_session session;
    orr_err err = {0};
    if (ctx == NULL && orr_ctx_new(NULL, &ctx, &err) != ORR_OK) {
        abort();
    }
    mcp_open(&session, ctx, check, NULL, &answers);
    const char *p = (const char *)data, *end = p + size;
    /* A validation may read whole files; nothing else here takes long. */
    bool slow = memmem(data, size, "validate", 8) != NULL;
    while (p < end && !slow) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((newline == NULL ? end : newline) - p);
        answers = 0;
        mcp_line(&session, p, length);
        if (answers > 1) {
            abort();
        }
        p += length + 1;
    }
    mcp_close(&session);
    return 0;
}
