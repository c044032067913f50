/* A linker for a group of tests, and plans from text. */
#ifndef ORR_TESTS_LINKER_FIXTURE_H
#define ORR_TESTS_LINKER_FIXTURE_H

#include <string.h>

#include "arena_fixture.h"
#include "doc/doc.h"
#include "program/program.h"

static orr_linker *linker;

static inline int open_linker(void **state) {
    linker = orr_linker_new();
    return open_arena(state);
}

static inline int close_linker(void **state) {
    orr_linker_free(linker);
    return close_arena(state);
}

static inline orr_tree *read_keys(const char *text) {
    orr_tree *keys = NULL;
    orr_err err = {0};
    if (orr_yaml_read(arena, "plan.yaml", text, strlen(text), &keys, &err) != ORR_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return keys;
}

#endif
