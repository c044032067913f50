/* Formats whose files are a tree of settings. A table says what each setting means for a plan, both
 * ways: an import goes from paths to plan keys, an export back. Two functions of the format say
 * what several settings mean together, and how to say that again. Adding a format is a table, those
 * functions and its tests. */
#ifndef ORR_EXCHANGE_FOREIGN_H
#define ORR_EXCHANGE_FOREIGN_H

#include "exchange/exchange_int.h"
#include "exchange/export.h"

typedef enum foreign_kind {
    FOREIGN_KIND_NUM,  /* a positive whole number: taken as it is */
    FOREIGN_KIND_SAYS, /* one of `words`, "theirs=ours ..." without case */
    FOREIGN_KIND_WITH, /* looked at by the format's functions */
    FOREIGN_KIND_SKIP, /* no effect on speed or memory */
    FOREIGN_KIND_NOTE, /* not modelled; unless the value is one of `words` */
    FOREIGN_KIND_SAME  /* another spelling of the path `words` */
} foreign_kind;

typedef struct foreign_row {
    const char *path; /* dotted; ".*" at the end: everything below */
    uint8_t kind;     /* foreign_kind */
    const char *key;  /* plan key that it decides, NULL: none alone */
    const char *words;
    const char *note;     /* for NOTE: what it is */
    const char *fallback; /* in our words, where the file is silent (orr_default_of); NULL: open */
} foreign_row;

#define FOREIGN_NUM(path, key) {path, FOREIGN_KIND_NUM, key, NULL, NULL, NULL}
#define FOREIGN_NUM_OR(path, key, fallback) {path, FOREIGN_KIND_NUM, key, NULL, NULL, fallback}
#define FOREIGN_SAYS(path, key, words) {path, FOREIGN_KIND_SAYS, key, words, NULL, NULL}
#define FOREIGN_SAYS_OR(path, key, words, fallback)                                                \
    {path, FOREIGN_KIND_SAYS, key, words, NULL, fallback}
#define FOREIGN_WITH(path, key) {path, FOREIGN_KIND_WITH, key, NULL, NULL, NULL}
#define FOREIGN_SKIP(path) {path, FOREIGN_KIND_SKIP, NULL, NULL, NULL, NULL}
#define FOREIGN_NOTE(path, words, note) {path, FOREIGN_KIND_NOTE, NULL, words, note, NULL}
#define FOREIGN_SAME(path, of) {path, FOREIGN_KIND_SAME, NULL, of, NULL, NULL}

typedef struct foreign_format {
    const char *name;
    const foreign_row *rows;
    size_t count;
    bool (*is)(const orr_tree *tree);
    void (*joint)(importer *im, const orr_tree *tree); /* spellings are those of today */
    void (*write)(exporter *x);                        /* NULL: no export */
} foreign_format;

extern const foreign_format orr_foreign_deepspeed, orr_foreign_accelerate, orr_foreign_nanotron,
    orr_foreign_torchtitan, orr_foreign_axolotl, orr_foreign_llamafactory, orr_foreign_trl,
    orr_foreign_llmfoundry, orr_foreign_maxtext;

/* The format of a tree, NULL: none of them. */
const foreign_format *orr_foreign_find(const orr_tree *tree);
void orr_foreign_import(importer *im, const foreign_format *format, const orr_tree *tree);
/* Asks for model, gpus, seq and gbs where they are not known. */
void orr_foreign_ask(importer *im);
/* Writes the rows of the table whose keys are stated, then what the format's function adds. */
void orr_foreign_export(exporter *x, const foreign_format *format);

/* Our word for theirs in "theirs=ours theirs=ours", NULL: none; a word without "=" stands for
 * itself. And theirs for ours, the first. */
const char *orr_words_ours(orr_arena *arena, const char *words, const char *theirs);
const char *orr_words_theirs(orr_arena *arena, const char *words, const char *ours);
/* A default by release: "x", or "x<0.16 y": x before release 0.16, y since. `release` may be NULL:
 * the newest. *differs: another release has another. */
const char *orr_default_of(orr_arena *arena, const char *text, const char *release, bool *differs);
/* A scalar as text; "" for lists and maps. */
const char *orr_tree_scalar(orr_arena *arena, const orr_tree *node);

/* For the joint functions. A setting "auto" is reported with the table and reads as absent. */
int64_t orr_foreign_int(const orr_tree *tree, const char *path, int64_t otherwise);
const char *orr_foreign_text(const orr_tree *tree, const char *path);
bool orr_foreign_flag(const orr_tree *tree, const char *path, bool otherwise);
uint32_t orr_foreign_line(const orr_tree *tree, const char *path);
/* Product of `count` numbers from 1 to a million; 0 when one is not, or the product is larger. */
int64_t orr_foreign_product(const int64_t *factors, size_t count);
/* Low-rank adapters: key "lora". rank: a number; targets: a list or words of module names, may be
 * null. A rank that is no number is asked for. */
void orr_foreign_lora(importer *im, const orr_tree *rank, const orr_tree *targets, uint32_t line);
/* A model by its id on a hub, "org/Name": the name is what catalogs know. */
void orr_foreign_model_id(importer *im, const char *id, uint32_t line);

#endif
