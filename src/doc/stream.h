/* Bytes of a file of any size, part by part, gzip unpacked on the way; and its lines. */
#ifndef ORR_DOC_STREAM_H
#define ORR_DOC_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"

enum {
    ORR_STREAM_PART_BYTES = 1 << 16,
    ORR_LINE_MAX_BYTES = 1 << 16 /* what is beyond on one line is skipped */
};

typedef struct orr_stream orr_stream;
/* Buffers live in the arena; the file is open until orr_stream_close. */
orr_status orr_stream_open(orr_arena *arena, const char *path, orr_stream **out, orr_err *err);
/* Of bytes that outlive it. */
orr_stream *orr_stream_of(orr_arena *arena, const char *bytes, size_t length);
void orr_stream_close(orr_stream *stream); /* NULL is fine */

/* The next part: at most ORR_STREAM_PART_BYTES, valid until the next call; *length 0 at the end.
 * More than `most` bytes in all, or damaged gzip data, is an error. */
orr_status orr_stream_next(orr_stream *stream, const char **part, size_t *length, orr_err *err);
/* The first bytes, up to a part, without taking them. */
orr_status orr_stream_peek(orr_stream *stream, const char **part, size_t *length, orr_err *err);

/* The next line without its end, terminated, in a buffer that the next call uses again; *line is
 * NULL at the end. A carriage return ends a line too, as progress bars print it; NUL bytes and
 * escape sequences for colour are left out. */
orr_status orr_stream_line(orr_stream *stream, char **line, orr_err *err);

#endif
