/* Formats whose files are a tree of settings: a table says what each setting means for a plan, a
 * function what several mean together. Adding a format is a table, that function and its tests. */
#ifndef ORR_EXCHANGE_FOREIGN_H
#define ORR_EXCHANGE_FOREIGN_H

#include "exchange/exchange_int.h"

typedef enum foreign_kind {
    FOREIGN_INT,    /* a whole number: taken as it is */
    FOREIGN_WORD,   /* one of `words`, "theirs=ours ..." without case */
    FOREIGN_JOINT,  /* looked at by the format's function */
    FOREIGN_QUIET,  /* no effect on speed or memory */
    FOREIGN_MATTERS /* not modelled; unless the value is one of `words` */
} foreign_kind;

typedef struct foreign_row {
    const char *path; /* dotted; ".*" at the end: everything below */
    uint8_t kind;     /* foreign_kind */
    const char *key;  /* plan key that it decides, NULL: none alone */
    const char *words;
    const char *note; /* for MATTERS: what it is */
} foreign_row;

typedef struct foreign_format {
    const char *name;
    const foreign_row *rows;
    size_t count;
    bool (*is)(const orr_tree *tree);
    void (*joint)(importer *im, const orr_tree *tree);
} foreign_format;

extern const foreign_format orr_foreign_deepspeed, orr_foreign_accelerate, orr_foreign_nanotron,
    orr_foreign_torchtitan;

/* The format of a tree, NULL: none of them. */
const foreign_format *orr_foreign_find(const orr_tree *tree);
void orr_foreign_import(importer *im, const foreign_format *format, const orr_tree *tree);

/* For the joint functions. A setting "auto" is reported with the table and reads as absent. */
int64_t orr_foreign_int(const orr_tree *tree, const char *path, int64_t otherwise);
const char *orr_foreign_text(const orr_tree *tree, const char *path);
bool orr_foreign_flag(const orr_tree *tree, const char *path, bool otherwise);
uint32_t orr_foreign_line(const orr_tree *tree, const char *path);
/* Product of `count` numbers from 1 to a million; 0 when one is not, or the product is larger. */
int64_t orr_foreign_product(const int64_t *factors, size_t count);

#endif
