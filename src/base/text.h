/* Names, numbers and growable text. */
#ifndef ORR_BASE_TEXT_H
#define ORR_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Growable text in an arena. Reaching `limit` bytes drops the rest and sets `truncated`. */
typedef struct orr_text {
    orr_arena *arena;
    char *bytes; /* terminated once anything was added */
    size_t length, capacity, limit;
    bool truncated;
} orr_text;

orr_text orr_text_new(orr_arena *arena, size_t limit);
void orr_text_add(orr_text *text, const char *bytes);
void orr_text_addn(orr_text *text, const char *bytes, size_t length);
void orr_text_format(orr_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *orr_text_done(orr_text *text); /* the terminated bytes; never NULL */

/* Two names are one when they agree without case and the separators "-_. ". */
bool orr_name_equal(const char *a, const char *b);
/* Index of the name most like `name` (edit distance), or -1 when none comes near. */
int orr_name_nearest(const char *name, const char *const *names, size_t count);

/* Locale-free numbers. The whole text must be consumed. orr_parse_real refuses NaN and infinity. */
bool orr_parse_int(const char *text, int64_t *out);
bool orr_parse_real(const char *text, double *out);
/* "80GiB", "3.35TB/s", "400Gb/s", "2k", "1.5M", "12us": decimal prefixes k M G T P, binary Ki Mi Gi
 * Ti; B bytes, b bits (given in bytes), /s ignored, s ms us ns ps; without a unit the number as is.
 */
bool orr_parse_quantity(const char *text, double *out);

/* Shortest decimal text that reads back as the same double; integers without exponent below 2^53.
 */
void orr_format_real(double value, char out[32]);

#endif
