/* Frameworks that configure Megatron-Core under names of their own: a table from their dotted paths
 * to the arguments of Megatron-LM (megatron_args.c), both ways. What the arguments mean together is
 * said once, in megatron.c. */
#ifndef ORR_EXCHANGE_DIALECT_H
#define ORR_EXCHANGE_DIALECT_H

#include "exchange/exchange_int.h"
#include "exchange/export.h"

typedef struct dialect_row {
    const char *path;  /* dotted; ".*" at the end: everything below; "": implied, never written */
    const char *arg;   /* argument of Megatron-LM; NULL: none (see note) */
    const char *words; /* "theirs=ours ..." where values differ, NULL: as they are */
    const char *note;  /* without an argument: what it is, not modelled; NULL: no effect */
} dialect_row;
/* Rows by what becomes of a path. */
#define QUIET(path) {path, NULL, NULL, NULL}
#define IS(path, arg) {path, arg, NULL, NULL}
#define IMPLIED(arg) {"", arg, NULL, NULL}
#define WORDS(path, arg, words) {path, arg, words, NULL}
#define LOST(path, note) {path, NULL, NULL, note}

typedef struct dialect {
    const char *name;
    const dialect_row *rows;
    size_t count;
    /* Sections whose names are arguments as they stand ("model"); the first takes, on export, what
     * no row names. NULL-terminated. */
    const char *const *sections;
    const char *const (*defaults)[2]; /* argument, value: where they differ from Megatron-LM's */
    size_t default_count;
    bool (*is)(const orr_tree *tree);
    /* What rows cannot say; may add settings and keys. NULL: nothing. */
    void (*joint)(importer *im, const orr_tree *tree, settings *list, megatron_ground *ground);
    void (*write)(exporter *x); /* the same, back; NULL: nothing */
} dialect;

extern const dialect orr_dialect_bridge, orr_dialect_nemo2, orr_dialect_nemo1, orr_dialect_primus;

const dialect *orr_dialect_find(const orr_tree *tree);
void orr_dialect_import(importer *im, const dialect *d, const orr_tree *tree);
/* A plan's Megatron-LM arguments under the dialect's paths, into x->out. */
void orr_dialect_spell(exporter *x, const dialect *d, const orr_tree *arguments);
/* The path of one argument in the dialect. */
const char *orr_dialect_path(orr_arena *arena, const dialect *d, const char *arg);

#endif
