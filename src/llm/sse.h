/* Server-sent events: bytes in any pieces to events (WHATWG HTML, "Server-sent events"). Only what
 * model servers use: event and data; comments keep a connection alive. */
#ifndef ORR_LLM_SSE_H
#define ORR_LLM_SSE_H

#include "base/text.h"

enum { ORR_SSE_MAX_LINE = 1 << 20, ORR_SSE_MAX_EVENT = 8 << 20 };

/* False stops. data is terminated; name is "" when the event has none. */
typedef bool (*orr_sse_fn)(void *user, const char *name, const char *data, size_t length);

typedef struct orr_sse {
    orr_arena *arena; /* of the event being read; reset after each */
    orr_text line, data;
    char name[64];
    bool has_data, after_cr, stopped, too_long, started;
    orr_sse_fn fn;
    void *user;
} orr_sse;

void orr_sse_open(orr_sse *sse, orr_sse_fn fn, void *user);
void orr_sse_close(orr_sse *sse); /* an event without its blank line is dropped */
/* False when a limit was passed or fn stopped it. */
bool orr_sse_push(orr_sse *sse, const char *bytes, size_t length);

#endif
