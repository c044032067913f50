/* Prompts say what is so: tools that exist, keys that exist, limits that are the code's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../ctx_fixture.h"
#include "agent/agent.h"

static orr_status ask(void *user, const char *command, const orr_tree *args, orr_arena *into,
                      orr_tree **result, orr_err *err) {
    (void)user;
    return orr_call(ctx, command, args, into, result, err);
}

static const orr_llm_tool *tools_of(uint32_t *count) {
    const orr_oracle oracle = {.call = ask};
    const orr_llm_tool *tools = NULL;
    orr_belt_axis axis[ORR_BELT_MAX_AXES];
    uint32_t axes = 0;
    orr_err err = {0};
    orr_tree *base = orr_tree_new_map(arena);
    static const char *const keys[][2] = {
        {"model", "mixtral-8x22b"}, {"hardware", "mi355x"}, {"gbs", "512"}, {"seq", "4096"}};
    for (size_t i = 0; i < 4; i++) {
        orr_tree_put_text(arena, base, keys[i][0], keys[i][1]);
    }
    orr_tree_put_int(arena, base, "gpus", 32);
    assert_int_equal(orr_belt_axes(&oracle, arena, base, axis, &axes, &err), ORR_OK);
    assert_int_equal(orr_agent_tools(arena, axis, axes, &tools, count, &err), ORR_OK);
    return tools;
}

static void names_in_backticks_are_tools(void **state) {
    (void)state;
    uint32_t count = 0, found = 0;
    const orr_llm_tool *tools = tools_of(&count);
    const char *prompt = orr_agent_prompt(arena, "investigator.md");
    assert_non_null(prompt);
    assert_true(strlen(prompt) < 3000);
    for (const char *p = strchr(prompt, '`'); p != NULL; p = strchr(p, '`')) {
        size_t length = strcspn(p + 1, "`");
        const char *name = orr_arena_copy(arena, p + 1, length);
        bool known = strcmp(name, "from") == 0;
        for (uint32_t i = 0; i < count; i++) {
            known = known || strcmp(tools[i].name, name) == 0;
        }
        if (!known) {
            fail_msg("the prompt names '%s', which is no tool", name);
        }
        found++;
        p += length + 2;
    }
    assert_true(found >= 8);
    const char *limit = orr_arena_format(arena, "up to %d plans", ORR_BELT_MAX_PLANS);
    assert_non_null(strstr(prompt, limit));
}

static void schemas_are_closed_and_short(void **state) {
    (void)state;
    uint32_t count = 0;
    const orr_llm_tool *tools = tools_of(&count);
    assert_int_equal(count, 13);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(strlen(tools[i].name) <= 64);
        assert_true(strlen(tools[i].description) > 20 && strlen(tools[i].description) < 300);
        assert_false(orr_tree_bool(orr_tree_get(tools[i].schema, "additionalProperties"), true));
        /* Strict mode takes it: every property is required, and says its type. */
        const orr_tree *strict = orr_llm_strict(arena, tools[i].schema);
        assert_int_equal(orr_tree_size(orr_tree_get(strict, "required")),
                         orr_tree_size(orr_tree_get(strict, "properties")));
    }
}

/* Plan keys that the experts' prompts list, against the schema of project. */
static void keys_in_expert_prompts_exist(void **state) {
    (void)state;
    static const char *const prompts[] = {"expert_memory.md", "expert_communication.md",
                                          "expert_pipeline.md"};
    orr_tree *args = orr_tree_new_map(arena), *schema = NULL;
    orr_err err = {0};
    orr_tree_put_text(arena, args, "name", "project");
    assert_int_equal(orr_call(ctx, "schema", args, arena, &schema, &err), ORR_OK);
    const orr_tree *properties = orr_tree_path(schema, "result.properties");
    for (size_t i = 0; i < 3; i++) {
        const char *prompt = orr_agent_prompt(arena, prompts[i]);
        assert_non_null(prompt);
        assert_null(strchr(prompt, '`'));
        const char *open = strchr(prompt, '(');
        while (open != NULL && *open != ')') {
            size_t skipped = strspn(open, "(, \n"), length = strcspn(open + skipped, ",) \n");
            const char *key = orr_arena_copy(arena, open + skipped, length);
            if (orr_tree_get(properties, key) == NULL) {
                fail_msg("%s names '%s', which is no plan key", prompts[i], key);
            }
            open += skipped + length;
        }
    }
    /* Every role that can be asked has a prompt, and no other. */
    uint32_t count = 0;
    const orr_llm_tool *tools = tools_of(&count);
    const orr_tree *roles = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(tools[i].name, "ask_expert") == 0) {
            roles = orr_tree_path(tools[i].schema, "properties.role.enum");
        }
    }
    assert_int_equal(orr_tree_size(roles), 3);
    for (size_t i = 0; i < orr_tree_size(roles); i++) {
        assert_non_null(
            orr_agent_prompt(arena, orr_arena_format(arena, "expert_%s.md",
                                                     orr_tree_text(orr_tree_at(roles, i), ""))));
    }
    assert_null(orr_agent_prompt(arena, "no-such-file.md"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_in_backticks_are_tools),
        cmocka_unit_test(schemas_are_closed_and_short),
        cmocka_unit_test(keys_in_expert_prompts_exist),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
