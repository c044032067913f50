/* Traces of the PyTorch profiler: one JSON object of any size, read as it streams. Kernels have the
 * categories kernel, gpu_memcpy and gpu_memset, times in microseconds; steps are annotations named
 * ProfilerStep#N. What is not needed is skipped without being kept. */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "observe/kernels.h"

enum { NUMBER_BYTES = 64 };

typedef struct cursor {
    orr_stream *stream;
    const char *part;
    size_t at, length;
    bool ended;
    orr_status status;
    orr_err *err;
} cursor;

/* The next byte, -1 at the end. */
static int peek(cursor *c) {
    while (c->at >= c->length && !c->ended) {
        c->status = orr_stream_next(c->stream, &c->part, &c->length, c->err);
        c->at = 0;
        c->ended = c->status != ORR_OK || c->length == 0;
    }
    return c->ended ? -1 : (unsigned char)c->part[c->at];
}

static int take(cursor *c) {
    int byte = peek(c);
    c->at += byte >= 0;
    return byte;
}

static int peek_token(cursor *c) {
    int byte;
    while ((byte = peek(c)) == ' ' || byte == '\n' || byte == '\r' || byte == '\t') {
        c->at++;
    }
    return byte;
}

static bool accept(cursor *c, int wanted) {
    if (peek_token(c) != wanted) {
        return false;
    }
    c->at++;
    return true;
}

/* The text of a string whose opening quote is taken, cut to what fits; escapes are left as their
 * last character. */
static bool read_text(cursor *c, char *to, size_t size) {
    size_t n = 0;
    for (;;) {
        int byte = take(c);
        if (byte < 0) {
            return false;
        }
        if (byte == '"') {
            to[n] = '\0';
            return true;
        }
        if (byte == '\\') {
            byte = take(c);
        }
        if (n + 1 < size && byte > 0) {
            to[n++] = (char)byte;
        }
    }
}

static bool read_string(cursor *c, char *to, size_t size) {
    to[0] = '\0';
    return accept(c, '"') && read_text(c, to, size);
}

/* A number, also one that stands as a string, as some versions write them. */
static bool read_number(cursor *c, double *value) {
    char text[NUMBER_BYTES];
    size_t n = 0;
    const char *end;
    if (peek_token(c) == '"') {
        return read_string(c, text, sizeof text) && orr_scan_number(text, value, &end);
    }
    for (int byte; (byte = peek(c)) >= 0 && strchr("+-.0123456789eE", byte) != NULL; c->at++) {
        if (n + 1 < sizeof text) {
            text[n++] = (char)byte;
        }
    }
    text[n] = '\0';
    return n > 0 && orr_scan_number(text, value, &end);
}

/* Any value, however deep; nothing of it is kept. */
static bool skip(cursor *c) {
    char ignored[2];
    int depth = 0;
    do {
        int byte = peek_token(c);
        if (byte < 0) {
            return false;
        }
        if (byte == '"') {
            if (!read_string(c, ignored, sizeof ignored)) {
                return false;
            }
        } else if (byte == '{' || byte == '[') {
            c->at++;
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0) {
                return false;
            }
            c->at++;
            depth--;
        } else if (byte == ',' || byte == ':') {
            if (depth == 0) {
                return false;
            }
            c->at++;
        } else {
            do { /* a NUL is none of them, whatever strchr says */
                c->at++;
            } while ((byte = peek(c)) > 0 && strchr(",:{}[]\" \t\r\n", byte) == NULL);
        }
    } while (depth > 0);
    return true;
}

/* The next key of an object whose brace is taken; false at its end, or when it is broken. */
static bool next_key(cursor *c, bool *first, char *key, size_t size) {
    if (peek_token(c) == '}') {
        c->at++;
        return false;
    }
    if (!*first && !accept(c, ',')) {
        return false;
    }
    *first = false;
    return read_string(c, key, size) && accept(c, ':');
}

typedef struct event {
    char phase[4], category[32], name[KERNEL_NAME_BYTES];
    double start_us, length_us;
} event;

static void add_event(kernel_trace *trace, const event *e) {
    bool kernel = strcmp(e->category, "kernel") == 0;
    bool copy = strcmp(e->category, "gpu_memcpy") == 0 || strcmp(e->category, "gpu_memset") == 0;
    if (strcmp(e->phase, "X") != 0 || e->length_us < 0) {
        return;
    }
    if (kernel || copy) {
        orr_kernels_add(trace, e->name, copy, e->start_us * ORR_US,
                        (e->start_us + e->length_us) * ORR_US);
    } else if (strcmp(e->category, "user_annotation") == 0 &&
               strncmp(e->name, "ProfilerStep#", 13) == 0) {
        orr_kernels_step(trace, e->start_us * ORR_US);
    }
}

static bool read_event(cursor *c, kernel_trace *trace) {
    event e = {.length_us = -1};
    char key[32];
    bool first = true, good = true;
    while (good && next_key(c, &first, key, sizeof key)) {
        good = strcmp(key, "ph") == 0     ? read_string(c, e.phase, sizeof e.phase)
               : strcmp(key, "cat") == 0  ? read_string(c, e.category, sizeof e.category)
               : strcmp(key, "name") == 0 ? read_string(c, e.name, sizeof e.name)
               : strcmp(key, "ts") == 0   ? read_number(c, &e.start_us)
               : strcmp(key, "dur") == 0  ? read_number(c, &e.length_us)
                                          : skip(c);
    }
    add_event(trace, &e);
    return good;
}

static bool read_events(cursor *c, kernel_trace *trace) {
    if (!accept(c, '[')) {
        return skip(c);
    }
    for (;;) {
        if (accept(c, ']')) {
            return true;
        }
        (void)accept(c, ',');
        if (!(accept(c, '{') ? read_event(c, trace) : skip(c))) {
            return false;
        }
    }
}

/* {"rank": 0, "world_size": 8}, or [{"name": "NVIDIA H100"}]: the first name and numbers. */
static bool read_facts(cursor *c, kernel_trace *trace) {
    char key[64], name[128];
    bool first = true, list = accept(c, '[');
    if (!accept(c, '{')) {
        return list ? accept(c, ']') : skip(c);
    }
    while (next_key(c, &first, key, sizeof key)) {
        double number = -1;
        if (strcmp(key, "name") == 0 && peek_token(c) == '"') {
            if (!read_string(c, name, sizeof name)) {
                return false;
            }
            trace->device =
                trace->device != NULL ? trace->device : orr_arena_text(trace->arena, name);
        } else if (strcmp(key, "rank") == 0 || strcmp(key, "world_size") == 0) {
            if (!read_number(c, &number)) {
                return false;
            }
            bool sane = number >= 0 && number <= 1 << 20;
            int64_t *to = key[0] == 'r' ? &trace->rank : &trace->world;
            *to = sane ? (int64_t)number : *to;
        } else if (!skip(c)) {
            return false;
        }
    }
    while (list && !accept(c, ']')) {
        if (!accept(c, ',') || !skip(c)) {
            return false;
        }
    }
    return true;
}

static bool read_trace(cursor *c, kernel_trace *trace) {
    char key[64];
    bool first = true;
    if (!accept(c, '{')) {
        return read_events(c, trace);
    }
    while (next_key(c, &first, key, sizeof key)) {
        bool facts = strcmp(key, "deviceProperties") == 0 || strcmp(key, "distributedInfo") == 0;
        if (!(strcmp(key, "traceEvents") == 0 ? read_events(c, trace)
              : facts                         ? read_facts(c, trace)
                                              : skip(c))) {
            return false;
        }
    }
    return true;
}

orr_status orr_observe_kineto(orr_arena *arena, orr_stream *stream, orr_observation *out,
                              orr_err *err) {
    cursor c = {.stream = stream, .err = err, .status = ORR_OK};
    kernel_trace *trace = orr_kernels_new(arena);
    bool whole = read_trace(&c, trace);
    if (c.status != ORR_OK) {
        return c.status;
    }
    orr_kernels_finish(trace, "kineto-trace", out);
    if (!whole && out->kind == ORR_OBSERVED_TRACE) {
        orr_observation_warn(arena, out,
                             "the trace is cut short or broken: what came before counts");
    }
    return ORR_OK;
}
