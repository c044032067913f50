/* A subset of TOML 1.0, enough for training configurations: tables, dotted keys, basic and literal
 * strings, integers, floats, booleans, arrays over several lines, inline tables, comments. Not
 * read: arrays of tables, multi-line strings, dates, inf and nan, hexadecimal numbers; each is an
 * error with its line. Bounds: size and depth of doc.h. */
#ifndef ORR_EXCHANGE_TOML_H
#define ORR_EXCHANGE_TOML_H

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

orr_status orr_toml_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err);

#endif
