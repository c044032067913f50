#include "llm/sse.h"

#include <stdio.h>
#include <string.h>

static void start_event(orr_sse *sse) {
    orr_arena_reset(sse->arena);
    sse->line = orr_text_new(sse->arena, ORR_SSE_MAX_LINE);
    sse->data = orr_text_new(sse->arena, ORR_SSE_MAX_EVENT);
    sse->name[0] = '\0';
    sse->has_data = false;
}

void orr_sse_open(orr_sse *sse, orr_sse_fn fn, void *user) {
    *sse = (orr_sse){.arena = orr_arena_new(), .fn = fn, .user = user};
    start_event(sse);
}

void orr_sse_close(orr_sse *sse) {
    orr_arena_free(sse->arena);
    sse->arena = NULL;
}

static void end_event(orr_sse *sse) {
    if (sse->has_data &&
        !sse->fn(sse->user, sse->name, orr_text_done(&sse->data), sse->data.length)) {
        sse->stopped = true;
    }
    start_event(sse);
}

static bool is_field(const char *line, size_t colon, const char *name) {
    return strlen(name) == colon && memcmp(line, name, colon) == 0;
}

static void end_line(orr_sse *sse) {
    const char *line = orr_text_done(&sse->line);
    size_t length = sse->line.length;
    if (length == 0) {
        end_event(sse);
        return;
    }
    const char *at = memchr(line, ':', length);
    size_t colon = at == NULL ? length : (size_t)(at - line);
    size_t value = colon < length ? colon + 1 : length;
    value += value < length && line[value] == ' ';
    if (is_field(line, colon, "data")) {
        if (sse->has_data) {
            orr_text_add(&sse->data, "\n");
        }
        orr_text_addn(&sse->data, line + value, length - value);
        sse->has_data = true;
    } else if (is_field(line, colon, "event")) {
        (void)snprintf(sse->name, sizeof sse->name, "%.*s", (int)(length - value), line + value);
    }
    sse->too_long = sse->too_long || sse->data.truncated;
    /* The line's bytes stay in the arena until the event ends; its room is bounded by the event's.
     */
    sse->line.length = 0;
}

static void push_end(orr_sse *sse, char c) {
    bool second_half = c == '\n' && sse->after_cr;
    sse->after_cr = c == '\r';
    if (!second_half) {
        end_line(sse);
    }
}

/* Bytes without an end of line. */
static void push_run(orr_sse *sse, const char *bytes, size_t length) {
    static const char mark[] = "\xef\xbb\xbf";
    sse->after_cr = false;
    orr_text_addn(&sse->line, bytes, length);
    sse->too_long = sse->too_long || sse->line.truncated;
    if (!sse->started && sse->line.length >= 3) {
        sse->started = true;
        if (memcmp(sse->line.bytes, mark, 3) == 0) {
            memmove(sse->line.bytes, sse->line.bytes + 3, sse->line.length - 3);
            sse->line.length -= 3;
        }
    }
}

bool orr_sse_push(orr_sse *sse, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && !sse->stopped && !sse->too_long;) {
        size_t run = i;
        while (run < length && bytes[run] != '\n' && bytes[run] != '\r') {
            run++;
        }
        if (run > i) {
            push_run(sse, bytes + i, run - i);
            i = run;
        } else {
            push_end(sse, bytes[i++]);
        }
    }
    return !sse->stopped && !sse->too_long;
}
