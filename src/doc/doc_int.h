/* Shared by the files of doc alone: the node itself, and places in a text. */
#ifndef ORR_DOC_INT_H
#define ORR_DOC_INT_H

#include "base/err.h"
#include "doc/doc.h"

typedef struct tree_entry {
    const char *key;
    orr_tree *child;
    uint32_t line, column; /* of the key */
} tree_entry;

/* 48 bytes, so that four million nodes stay affordable. */
struct orr_tree {
    orr_tree_kind kind;
    uint32_t line, column;
    uint32_t count; /* children of a list or map */
    const char *file;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *bytes;
            size_t length;
        } text;
        struct {
            orr_tree **items;
            size_t capacity;
        } list;
        struct {
            tree_entry *entries;
            uint32_t *index; /* hash table of entry numbers + 1, for large maps only */
        } map;
    } as;
};

/* A readable text without its byte order mark, or why it cannot be one: too long, not
 * UTF-8, with a NUL. */
orr_status orr_doc_check_text(const char *name, const char **text, size_t *length, orr_err *err);
/* Line and column (in characters, from 1) of a byte of the text. */
orr_span orr_doc_locate(const char *name, const char *text, size_t length, size_t offset);
/* Number of bytes before the first that is not UTF-8; length when all is well. */
size_t orr_utf8_prefix(const char *text, size_t length);

/* Text of a quantity in the base unit of `unit` (see orr_field); false when it has no such reading.
 * `unit` NULL takes a plain number or one with a decimal or binary prefix. */
bool orr_quantity_parse(const char *text, const char *unit, double *out);

size_t orr_field_value_count(const orr_field *field);
/* Stores a node, which is not null, into the field's member of target. On failure returns a code
 * ("wrong_type", "out_of_range", "unknown_value") and fills err; NULL when stored. */
const char *orr_field_store(const orr_field *field, orr_arena *arena, const orr_tree *node,
                            void *target, orr_err *err);
/* The same with the field's default; false when the table's author wrote one that does not fit. */
bool orr_field_store_default(const orr_field *field, orr_arena *arena, void *target);
/* The member as a node. */
orr_tree *orr_field_load(const orr_field *field, orr_arena *arena, const void *source);

#endif
