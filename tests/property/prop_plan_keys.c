/* Random keys with random values: resolving never crashes, says the same twice, and what resolves
 * comes back from its own writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/rng.h"
#include "orrery/orrery.h"
#include "plan/plan.h"

enum { ROUNDS = 1500 };

static const char *const odd_texts[] = {
    "8k",     "none", "all", "-1",  "nan",  "1e400", "block:3", "selective:mlp",  "Et*16|t*16L",
    "auto",   "on",   "",    "zbv", "even", "fp8",   "hsdp",    "embedding,loss", "tp,ep",
    "16:q+v", "nf4"};

static orr_tree *random_value(orr_arena *arena, orr_rng *rng) {
    switch (orr_rng_below(rng, 8)) {
    case 0: return orr_tree_null(arena);
    case 1: return orr_tree_new_bool(arena, orr_rng_below(rng, 2) != 0);
    case 2: return orr_tree_new_int(arena, (int64_t)orr_rng_next(rng));
    case 3: return orr_tree_new_real(arena, orr_rng_unit(rng) * 1e20 - 1e19);
    case 4: return orr_tree_new_list(arena);
    case 5: return orr_tree_new_map(arena);
    default:
        return orr_tree_new_text(
            arena, odd_texts[orr_rng_below(rng, sizeof odd_texts / sizeof *odd_texts)]);
    }
}

/* A value that the key takes, most often. */
static orr_tree *likely_value(orr_arena *arena, orr_rng *rng, const orr_tree *field) {
    const orr_tree *values = orr_tree_get(field, "values");
    if (orr_rng_below(rng, 12) == 0) {
        return random_value(arena, rng);
    }
    if (orr_tree_size(values) > 0) {
        uint32_t which = orr_rng_below(rng, (uint32_t)orr_tree_size(values));
        return orr_tree_new_text(arena, orr_tree_text(orr_tree_at(values, which), ""));
    }
    return orr_tree_new_int(arena, 1ll << orr_rng_below(rng, 6));
}

static orr_tree *random_keys(orr_arena *arena, orr_rng *rng, const orr_tree *fields) {
    static const char *const models[] = {"llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"};
    static const char *const chips[] = {"h100", "mi355x", "gb200"};
    orr_tree *keys = orr_tree_new_map(arena);
    orr_tree_put_text(arena, keys, "model", models[orr_rng_below(rng, 3)]);
    orr_tree_put_text(arena, keys, "hardware", chips[orr_rng_below(rng, 3)]);
    orr_tree_put_int(arena, keys, "gpus", 8 << orr_rng_below(rng, 6));
    for (uint32_t n = orr_rng_below(rng, 9); n > 0; n--) {
        const orr_tree *field =
            orr_tree_at(fields, orr_rng_below(rng, (uint32_t)orr_tree_size(fields)));
        const char *name = orr_tree_text(orr_tree_get(field, "name"), "");
        bool input = strcmp(name, "model") == 0 || strcmp(name, "hardware") == 0 ||
                     strcmp(name, "cluster") == 0 || strcmp(name, "software") == 0 ||
                     strcmp(name, "fabric") == 0 || strcmp(name, "nic") == 0;
        if (!input || orr_rng_below(rng, 20) == 0) {
            orr_tree_put(arena, keys, name, likely_value(arena, rng, field));
        }
    }
    return keys;
}

static const char *written(orr_arena *arena, const orr_resolved *r) {
    return orr_write_json(arena, orr_plan_write(arena, r), false);
}

static void check_round_trip(orr_arena *arena, const orr_resolved *first) {
    orr_resolved second;
    orr_err err = {0};
    orr_tree *keys = orr_plan_write(arena, first);
    if (orr_plan_resolve(arena, keys, &second, &err) != ORR_OK) {
        fail_msg("%s does not resolve: %s", orr_write_json(arena, keys, false), err.message);
    }
    assert_string_equal(written(arena, first), written(arena, &second));
    assert_memory_equal(&first->plan.variant, &second.plan.variant, sizeof first->plan.variant);
    assert_memory_equal(&first->plan.numeric, &second.plan.numeric, sizeof first->plan.numeric);
    assert_memory_equal(&first->plan.pipe, &second.plan.pipe, sizeof first->plan.pipe);
    assert_memory_equal(&first->plan.split, &second.plan.split, sizeof first->plan.split);
    assert_memory_equal(&first->plan.shard, &second.plan.shard, sizeof first->plan.shard);
    assert_memory_equal(&first->plan.batch, &second.plan.batch, sizeof first->plan.batch);
    assert_memory_equal(&first->plan.lora, &second.plan.lora, sizeof first->plan.lora);
}

static void random_keys_resolve_or_say_why(void **state) {
    (void)state;
    orr_arena *table = orr_arena_new(), *arena = orr_arena_new();
    orr_tree *fields = orr_plan_fields(table);
    orr_rng rng = {7};
    uint32_t resolved = 0;
    for (int i = 0; i < ROUNDS; i++) {
        orr_resolved one, two;
        orr_err first = {0}, second = {0};
        orr_violation found[ORR_MAX_VIOLATIONS];
        orr_tree *keys = random_keys(arena, &rng, fields);
        orr_status status = orr_plan_resolve(arena, keys, &one, &first);
        assert_int_equal(orr_plan_resolve(arena, keys, &two, &second), status);
        assert_string_equal(first.message, second.message);
        assert_string_equal(first.hint, second.hint);
        if (status == ORR_OK) {
            resolved++;
            assert_string_equal(written(arena, &one), written(arena, &two));
            check_round_trip(arena, &one);
            (void)orr_plan_check(arena, &one, found);
        } else {
            assert_true(first.message[0] != '\0');
        }
        orr_arena_reset(arena);
    }
    assert_true(resolved > ROUNDS / 5 && resolved < ROUNDS);
    orr_arena_free(arena);
    orr_arena_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_keys_resolve_or_say_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
