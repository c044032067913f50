#include "doc/stream.h"

#include <string.h>
#include <zlib.h>

#include "base/err.h"
#include "base/os_file.h"

enum { WINDOW = 15 + 16 };
/* A bomb of a few KiB could unpack for ever; no log or trace comes near this. */
static const uint64_t MOST_BYTES = (uint64_t)64 << 30;

struct orr_stream {
    int file; /* -1: of bytes, or at its end */
    const char *bytes;
    size_t left; /* of bytes */
    bool started, packed, peeked, ended;
    uint64_t given;
    z_stream z;
    char *in, *out; /* a part each */
    const char *part;
    size_t part_length, at; /* what lines have not taken of the part */
    char *line;
};

static orr_stream *new_stream(orr_arena *arena) {
    orr_stream *s = ORR_NEW(arena, orr_stream);
    s->file = -1;
    s->in = (char *)orr_arena_alloc(arena, ORR_STREAM_PART_BYTES);
    s->out = (char *)orr_arena_alloc(arena, ORR_STREAM_PART_BYTES);
    s->line = (char *)orr_arena_alloc(arena, ORR_LINE_MAX_BYTES + 1);
    return s;
}

orr_status orr_stream_open(orr_arena *arena, const char *path, orr_stream **out, orr_err *err) {
    int file;
    ORR_TRY(orr_os_open(path, &file, err));
    *out = new_stream(arena);
    (*out)->file = file;
    return ORR_OK;
}

orr_stream *orr_stream_of(orr_arena *arena, const char *bytes, size_t length) {
    orr_stream *s = new_stream(arena);
    s->bytes = bytes;
    s->left = length;
    return s;
}

void orr_stream_close(orr_stream *stream) {
    if (stream == NULL) {
        return;
    }
    if (stream->file >= 0) {
        orr_os_close(stream->file);
        stream->file = -1;
    }
    if (stream->packed) {
        (void)inflateEnd(&stream->z);
        stream->packed = false;
    }
}

static orr_status raw_part(orr_stream *s, size_t *got, orr_err *err) {
    if (s->file >= 0) {
        return orr_os_read_part(s->file, s->in, ORR_STREAM_PART_BYTES, got, err);
    }
    *got = s->left < ORR_STREAM_PART_BYTES ? s->left : ORR_STREAM_PART_BYTES;
    if (*got > 0) {
        memcpy(s->in, s->bytes, *got);
    }
    s->bytes += *got;
    s->left -= *got;
    return ORR_OK;
}

static orr_status unpacked_part(orr_stream *s, size_t *length, orr_err *err) {
    s->z.next_out = (Bytef *)s->out;
    s->z.avail_out = ORR_STREAM_PART_BYTES;
    while (s->z.avail_out == ORR_STREAM_PART_BYTES) {
        if (s->z.avail_in == 0) {
            size_t got;
            ORR_TRY(raw_part(s, &got, err));
            if (got == 0) { /* a file that is still being written ends anywhere */
                break;
            }
            s->z.next_in = (Bytef *)s->in;
            s->z.avail_in = (uInt)got;
        }
        int result = inflate(&s->z, Z_NO_FLUSH);
        if (result == Z_STREAM_END) {
            result = inflateReset(&s->z); /* gzip files may be concatenated */
        }
        if (result != Z_OK && result != Z_BUF_ERROR) {
            return orr_fail(err, ORR_E_SYNTAX, "the gzip data is damaged");
        }
    }
    *length = ORR_STREAM_PART_BYTES - s->z.avail_out;
    s->part = s->out;
    return ORR_OK;
}

static orr_status fetch(orr_stream *s, orr_err *err) {
    size_t got = 0;
    if (!s->started) {
        s->started = true;
        ORR_TRY(raw_part(s, &got, err));
        if (got >= 2 && memcmp(s->in, "\x1f\x8b", 2) == 0) {
            s->z.next_in = (Bytef *)s->in;
            s->z.avail_in = (uInt)got;
            if (inflateInit2(&s->z, WINDOW) != Z_OK) {
                return orr_fail(err, ORR_E_LIMIT, "too little memory to unpack");
            }
            s->packed = true;
            ORR_TRY(unpacked_part(s, &got, err));
        } else {
            s->part = s->in;
        }
    } else if (s->packed) {
        ORR_TRY(unpacked_part(s, &got, err));
    } else {
        ORR_TRY(raw_part(s, &got, err));
        s->part = s->in;
    }
    s->part_length = got;
    s->given += got;
    return s->given <= MOST_BYTES
               ? ORR_OK
               : orr_fail(err, ORR_E_LIMIT, "more than 64 GiB of text are not read");
}

orr_status orr_stream_next(orr_stream *stream, const char **part, size_t *length, orr_err *err) {
    if (!stream->peeked) {
        ORR_TRY(fetch(stream, err));
    }
    stream->peeked = false;
    *part = stream->part;
    *length = stream->part_length;
    stream->at = stream->part_length;
    return ORR_OK;
}

orr_status orr_stream_peek(orr_stream *stream, const char **part, size_t *length, orr_err *err) {
    if (!stream->peeked) {
        ORR_TRY(fetch(stream, err));
        stream->peeked = true;
        stream->at = 0;
    }
    *part = stream->part;
    *length = stream->part_length;
    return ORR_OK;
}

/* Whether a byte goes on an escape sequence: ESC [ parameters letter. */
typedef enum escape { PLAIN, AFTER_ESC, IN_SEQUENCE } escape;

static bool keep(escape *state, char c) {
    if (*state == AFTER_ESC) {
        *state = c == '[' ? IN_SEQUENCE : PLAIN;
        return false;
    }
    if (*state == IN_SEQUENCE) {
        *state = c >= '@' && c <= '~' ? PLAIN : IN_SEQUENCE;
        return false;
    }
    if (c == '\x1b') {
        *state = AFTER_ESC;
        return false;
    }
    return c != '\0';
}

orr_status orr_stream_line(orr_stream *stream, char **line, orr_err *err) {
    orr_stream *s = stream;
    size_t length = 0;
    bool any = false;
    escape state = PLAIN;
    s->peeked = false;
    for (;;) {
        if (s->at >= s->part_length) {
            if (s->ended) {
                break;
            }
            ORR_TRY(fetch(s, err));
            s->at = 0;
            s->ended = s->part_length == 0;
            continue;
        }
        char c = s->part[s->at++];
        any = true;
        if (c == '\n' || c == '\r') {
            break;
        }
        if (keep(&state, c) && length < ORR_LINE_MAX_BYTES) {
            s->line[length++] = c;
        }
    }
    s->line[length] = '\0';
    *line = any ? s->line : NULL;
    return ORR_OK;
}
