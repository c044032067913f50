/* Text to tree and back, and declarative field tables.
 *
 * One tree (orrery/tree.h) for JSON, YAML and CSV with the place of every node. Readers bound what
 * they accept (size, depth, nodes, aliases) and refuse duplicate keys. A field table describes a
 * struct once: it reads a map into the struct with complete error messages, validates, supplies
 * defaults, and emits its own JSON Schema and help. */
#ifndef ORR_DOC_H
#define ORR_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "orrery/status.h"
#include "orrery/tree.h"

enum {
    ORR_DOC_MAX_BYTES = 64 << 20, /* one text */
    ORR_DOC_MAX_DEPTH = 64,
    ORR_DOC_MAX_NODES = 4 << 20,
    ORR_DOC_MAX_ALIASES = 1024 /* YAML: nodes reached through aliases count against MAX_NODES */
};

/* ---- reading -------------------------------------------------------------------------------- */

/* Whole file into the arena, terminated. ORR_E_IO or ORR_E_LIMIT. Gzip is unpacked when the first
 * bytes say so. */
orr_status orr_file_read(orr_arena *arena, const char *path, char **out, size_t *length,
                         orr_err *err);

/* name (may be NULL) goes into spans; it is copied. Numbers that are not finite are errors. */
orr_status orr_json_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err);
orr_status orr_yaml_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err);
/* By content: JSON when the first character is { or [, else YAML. */
orr_status orr_doc_read(orr_arena *arena, const char *name, const char *text, size_t length,
                        orr_tree **out, orr_err *err);
orr_status orr_doc_read_file(orr_arena *arena, const char *path, orr_tree **out, orr_err *err);

/* CSV by row (RFC 4180 quotes); the first row is the header. A visitor avoids a tree of millions.
 */
typedef struct orr_csv orr_csv;
orr_status orr_csv_open(orr_arena *arena, const char *name, const char *text, size_t length,
                        orr_csv **out, orr_err *err);
size_t orr_csv_columns(const orr_csv *csv);
const char *orr_csv_column(const orr_csv *csv, size_t index);
int orr_csv_find(const orr_csv *csv, const char *column); /* -1 when absent */
/* Next row: cells are terminated texts, valid until the next call; *more false at the end. A row of
 * another width than the header is ORR_E_SYNTAX with its line. */
orr_status orr_csv_next(orr_csv *csv, const char *const **cells, bool *more, orr_err *err);
uint32_t orr_csv_line(const orr_csv *csv); /* line of the current row */

/* ---- writing -------------------------------------------------------------------------------- */

void orr_json_write(orr_text *out, const orr_tree *node, bool pretty);
/* orr_write_json of the public header is this with a default limit. */

/* orr_tree_put with the place of the key itself, for messages about keys. */
void orr_tree_put_at(orr_arena *arena, orr_tree *map, const char *key, orr_span at,
                     orr_tree *child);

/* ---- field tables --------------------------------------------------------------------------- */

typedef enum orr_field_type {
    ORR_FIELD_BOOL,     /* bool */
    ORR_FIELD_U32,      /* uint32_t */
    ORR_FIELD_U64,      /* uint64_t */
    ORR_FIELD_REAL,     /* double, taken as is */
    ORR_FIELD_QUANTITY, /* double in base units; a number, or text such as "80GiB", "3.35TB/s" */
    ORR_FIELD_TEXT,     /* const char * into the arena */
    ORR_FIELD_ENUM,     /* uint8_t index into values[] */
    ORR_FIELD_FLAGS,    /* uint32_t bits; a list, or a comma-separated text, of values[] */
    ORR_FIELD_TREE      /* const orr_tree *, any shape: the caller looks inside */
} orr_field_type;

typedef struct orr_field {
    const char *name;
    orr_field_type type;
    size_t offset;             /* of the member in the struct */
    double min, max;           /* inclusive; both 0: any non-negative; max 0: no maximum */
    const char *const *values; /* NULL-terminated names, for ENUM and FLAGS */
    const char *fallback;      /* default as text; NULL: required; "": keep what the struct holds */
    const char *unit;          /* "bytes", "bytes/s", "s", "flop", "flop/s", "tokens", "tokens/s",
                                * "parameters", "W", "Hz" (quantity.c lists their spellings), or any
                                * other word, which then stands for itself; NULL: none */
    const char *doc;           /* one sentence */
    uint32_t of, needed_by;    /* the owner's own bits, such as which ops take it; not read here */
} orr_field;

/* A table: fields of one struct. `title` is used in messages ("hardware file"). */
typedef struct orr_schema {
    const char *title;
    const orr_field *fields;
    size_t count;
    bool open; /* unknown fields are allowed (foreign formats) */
} orr_schema;

/* Reads a map into `target`. Errors: unknown field with the nearest name, missing field, wrong
 * type, out of range, bad enum value with the nearest, each with the node's span; the first is
 * reported, in the order of the map, then missing fields. A field that is null counts as absent.
 * NULL or null map: all defaults. Text is taken for any type that it spells ("8", "on", "80GiB"),
 * as it comes from command lines. Fields present are marked in `seen` (bitset by field index, may
 * be NULL; count <= 64). On failure some members may have been set. */
orr_status orr_schema_read(const orr_schema *schema, orr_arena *arena, const orr_tree *map,
                           void *target, uint64_t *seen, orr_err *err);

/* The same, but goes on after a problem: each is appended to `problems`, a list that may hold some
 * already, as {code, message, hint, file, line, column}, up to ORR_MAX_PROBLEMS in all. The status
 * and err are those of the first. Codes: unknown_field, missing_field, wrong_type, out_of_range,
 * unknown_value. */
enum { ORR_MAX_PROBLEMS = 64 };
orr_status orr_schema_read_all(const orr_schema *schema, orr_arena *arena, const orr_tree *map,
                               void *target, uint64_t *seen, orr_tree *problems, orr_err *err);
/* Appends a failure to such a list, for rules that a table cannot state. */
void orr_problem_add(orr_arena *arena, orr_tree *problems, const char *code, const orr_err *err);

/* The fields of a table as a list of {name, type, default, unit, values, doc}, for help. */
orr_tree *orr_schema_fields(const orr_schema *schema, orr_arena *arena);
/* The member of a real or quantity field by its name, for fitting; NULL when there is none. */
double *orr_schema_number(const orr_schema *schema, void *target, const char *name);
/* The struct back as a map, every field, in table order. */
orr_tree *orr_schema_write(const orr_schema *schema, orr_arena *arena, const void *source);

#endif
