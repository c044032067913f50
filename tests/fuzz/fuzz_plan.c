/* Any map resolves to a plan or says why not; a plan that resolved is judged, placed, written and
 * resolved again to the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "orrery/orrery.h"
#include "plan/plan.h"

/* Names only: a path would read files of the machine. */
static bool names_a_path(const orr_tree *keys) {
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const char *text = orr_tree_text(orr_tree_at(keys, i), "");
        if (strchr(text, '/') != NULL || strstr(text, ".json") != NULL ||
            strstr(text, ".y") != NULL) {
            return true;
        }
    }
    return false;
}

static void judge(orr_arena *arena, const orr_resolved *r) {
    orr_violation found[ORR_MAX_VIOLATIONS];
    uint32_t count = orr_plan_check(arena, r, found);
    if (orr_plan_legal(r) != (count == 0 || found[0].effect == ORR_RULE_WARNING)) {
        abort();
    }
    uint32_t chunks = r->plan.pipe.pp * r->plan.pipe.vpp;
    uint32_t *layers = orr_arena_array(arena, chunks, sizeof *layers);
    uint32_t *offset = orr_arena_array(arena, chunks, sizeof *offset);
    if (orr_plan_layers(r->model, &r->plan, layers, offset, NULL) != ORR_OK && orr_plan_legal(r)) {
        abort();
    }
}

static void check(orr_arena *arena, const orr_tree *keys) {
    orr_resolved first, second;
    orr_err err = {0};
    size_t problems = orr_tree_size(orr_plan_problems(arena, keys));
    orr_status status = orr_plan_resolve(arena, keys, &first, &err);
    if ((status == ORR_OK) != (problems == 0) || (status != ORR_OK && err.message[0] == '\0')) {
        abort();
    }
    if (status != ORR_OK) {
        return;
    }
    judge(arena, &first);
    orr_tree *written = orr_plan_write(arena, &first);
    if (orr_plan_resolve(arena, written, &second, &err) != ORR_OK ||
        strcmp(orr_write_json(arena, written, false),
               orr_write_json(arena, orr_plan_write(arena, &second), false)) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_tree *keys;
    if (size < 1 << 14 &&
        orr_doc_read(arena, "plan.yaml", (const char *)data, size, &keys, NULL) == ORR_OK &&
        !names_a_path(keys)) {
        check(arena, keys);
    }
    orr_arena_free(arena);
    return 0;
}
