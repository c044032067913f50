/* Scripted sessions of both eras, and everything a client may get wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/text.h"
#include "mcp/mcp.h"

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define PLAN                                                                                       \
    "\"model\":\"llama-3.1-8b\",\"hardware\":\"h100\",\"gpus\":8,\"cp\":2,\"gbs\":128,\"seq\":"    \
    "8192"

typedef struct fixture {
    orr_ctx *ctx;
    orr_arena *arena;
    mcp_session session;
    orr_tree *out[32];
    size_t count;
    const char *interrupt; /* handed over while a command runs */
    size_t interrupted_at; /* lines written before */
} fixture;

static void keep_line(void *user, const char *line) {
    fixture *f = (fixture *)user;
    orr_err err = {0};
    assert_true(f->count < sizeof f->out / sizeof *f->out);
    assert_null(strchr(line, '\n'));
    assert_int_equal(orr_read_text(f->arena, "answer", line, strlen(line), &f->out[f->count], &err),
                     ORR_OK);
    assert_string_equal(orr_tree_text(orr_tree_get(f->out[f->count], "jsonrpc"), ""), "2.0");
    f->count++;
}

static void interrupt(void *user) {
    fixture *f = (fixture *)user;
    if (f->interrupt != NULL) {
        mcp_glance(&f->session, f->interrupt, strlen(f->interrupt));
        f->interrupted_at = f->count;
    }
}

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof f);
    orr_err err = {0};
    f.arena = orr_arena_new();
    if (orr_ctx_new(NULL, &f.ctx, &err) != ORR_OK) {
        return 1;
    }
    mcp_open(&f.session, f.ctx, keep_line, interrupt, &f);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = (fixture *)*state;
    mcp_close(&f->session);
    orr_ctx_free(f->ctx);
    orr_arena_free(f->arena);
    return 0;
}

/* Sends one line and returns the last answer; NULL when there is none. */
static const orr_tree *say(fixture *f, const char *line) {
    f->count = 0;
    mcp_line(&f->session, line, strlen(line));
    return f->count == 0 ? NULL : f->out[f->count - 1];
}

static int64_t error_code(const orr_tree *answer) {
    return orr_tree_int(orr_tree_path(answer, "error.code"), 0);
}

static const char *text_at(const orr_tree *answer, const char *path) {
    return orr_tree_text(orr_tree_path(answer, path), "");
}

static void handshake_offers_the_version_asked_for(void **state) {
    fixture *f = (fixture *)*state;
    static const char *const cases[][2] = {{"2025-11-25", "2025-11-25"},
                                           {"2025-06-18", "2025-06-18"},
                                           {"2024-11-05", "2024-11-05"},
                                           {"2025-03-26", "2025-11-25"},
                                           {"1999-01-01", "2025-11-25"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[256];
        (void)snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"initialize\",\"params\":{"
                       "\"protocolVersion\":\"%s\",\"capabilities\":{},\"clientInfo\":{}}}",
                       i, cases[i][0]);
        const orr_tree *answer = say(f, line);
        assert_string_equal(text_at(answer, "result.protocolVersion"), cases[i][1]);
        assert_string_equal(text_at(answer, "result.serverInfo.name"), "orrery");
        assert_null(orr_tree_path(answer, "result.resultType"));
        assert_int_equal(orr_tree_int(orr_tree_get(answer, "id"), -1), (int64_t)i);
    }
    assert_null(say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
    assert_int_equal(
        orr_tree_size(orr_tree_get(say(f, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}"),
                                   "result")),
        0);
}

static void the_stateless_era_is_told_apart(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *answer = say(
        f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META "}}");
    assert_string_equal(text_at(answer, "result.resultType"), "complete");
    assert_string_equal(text_at(answer, "result.supportedVersions.0"), "2026-07-28");
    assert_string_equal(text_at(answer, "result.cacheScope"), "public");
    assert_true(orr_tree_int(orr_tree_path(answer, "result.ttlMs"), -1) >= 0);
    assert_int_equal(
        error_code(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}")),
        -32602);
    answer =
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
               "\"io.modelcontextprotocol/protocolVersion\":\"2031-01-01\","
               "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    assert_int_equal(error_code(answer), -32022);
    assert_string_equal(text_at(answer, "error.data.requested"), "2031-01-01");
    /* It has no handshake and no ping. */
    assert_int_equal(
        error_code(
            say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" META "}}")),
        -32601);
    answer =
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META "}}");
    assert_string_equal(text_at(answer, "result.resultType"), "complete");
}

static void every_command_is_a_tool_with_a_strict_schema(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *tools = orr_tree_path(
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), "result.tools");
    /* But for the one that asks a language model. */
    assert_int_equal(orr_tree_size(tools), orr_tree_size(orr_commands(f->ctx, f->arena)) - 1);
    for (size_t i = 0; i < orr_tree_size(tools); i++) {
        const orr_tree *tool = orr_tree_at(tools, i);
        const char *name = text_at(tool, "name");
        assert_true(strlen(name) > 0 && strlen(name) <= 64);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        assert_string_equal(text_at(tool, "inputSchema.type"), "object");
        assert_false(orr_tree_bool(orr_tree_path(tool, "inputSchema.additionalProperties"), true));
        assert_true(strncmp(name, "llm", 3) != 0);
        const orr_tree *properties = orr_tree_path(tool, "inputSchema.properties");
        for (size_t p = 0; p < orr_tree_size(properties); p++) {
            assert_true(strncmp(orr_tree_key(properties, p), "llm", 3) != 0);
            assert_non_null(orr_tree_get(orr_tree_at(properties, p), "type"));
        }
        const orr_tree *required = orr_tree_path(tool, "inputSchema.required");
        for (size_t r = 0; r < orr_tree_size(required); r++) {
            assert_non_null(orr_tree_get(properties, orr_tree_text(orr_tree_at(required, r), "")));
        }
    }
    const char *once = orr_write_json(f->arena, tools, false);
    const orr_tree *again = orr_tree_path(
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), "result.tools");
    assert_string_equal(orr_write_json(f->arena, again, false), once);
}

static void no_language_model_is_reached(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *answer = say(
        f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"tune\","
           "\"arguments\":{" PLAN
           ",\"llm\":\"http://127.0.0.1:9\",\"llm_key_file\":\"/etc/hostname\"}}}");
    assert_true(orr_tree_bool(orr_tree_path(answer, "result.isError"), false));
    assert_non_null(strstr(text_at(answer, "result.content.0.text"), "no language model"));
    assert_int_equal(
        error_code(
            say(f, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
                   "\"llm_doctor\",\"arguments\":{}}}")),
        -32602);
}

static void a_call_answers_twice_the_same(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *answer =
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"project\",\"arguments\":{" PLAN "}}}");
    const orr_tree *structured = orr_tree_path(answer, "result.structuredContent");
    assert_string_equal(text_at(structured, "schema"), "orrery.project/1");
    assert_true(orr_tree_real(orr_tree_path(structured, "result.tokens_per_s_per_gpu"), 0) > 1000);
    assert_false(orr_tree_bool(orr_tree_path(answer, "result.isError"), true));
    assert_string_equal(text_at(answer, "result.content.0.text"),
                        orr_write_json(f->arena, structured, false));
}

static void what_can_be_mended_is_a_result(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *answer =
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"project\",\"arguments\":{\"model\":\"lama-3.1-8b\",\"hardware\":\"h100\"}}}");
    assert_true(orr_tree_bool(orr_tree_path(answer, "result.isError"), false));
    assert_non_null(strstr(text_at(answer, "result.content.0.text"), "llama-3.1-8b"));
    answer = say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
                    "\"project\",\"arguments\":{" PLAN ",\"tp\":3}}}");
    assert_true(orr_tree_bool(orr_tree_path(answer, "result.isError"), false));
    assert_non_null(strstr(text_at(answer, "result.content.0.text"), "PAR-TP-01"));
    /* The caller's own mistakes are errors of the protocol. */
    assert_int_equal(error_code(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                       "\"params\":{\"name\":\"rm\"}}")),
                     -32602);
    assert_int_equal(error_code(say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                                       "\"params\":{\"name\":\"rules\",\"arguments\":7}}")),
                     -32602);
}

static void progress_grows_and_a_cancelled_call_is_silent(void **state) {
    fixture *f = (fixture *)*state;
    static const char call[] =
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/call\",\"params\":{\"name\":"
        "\"evaluate\",\"_meta\":{\"progressToken\":\"t\"},\"arguments\":{" PLAN
        ",\"plans\":[{\"cp\":1},{\"cp\":2},{\"mbs\":2},{\"mbs\":4}]}}}";
    const orr_tree *answer = say(f, call);
    assert_int_equal(f->count, 4); /* three of progress after the first, and the answer */
    double last = 0;
    for (size_t i = 0; i + 1 < f->count; i++) {
        assert_string_equal(text_at(f->out[i], "method"), "notifications/progress");
        assert_string_equal(text_at(f->out[i], "params.progressToken"), "t");
        double now = orr_tree_real(orr_tree_path(f->out[i], "params.progress"), 0);
        assert_true(now > last);
        last = now;
    }
    assert_int_equal(orr_tree_size(orr_tree_path(answer, "result.structuredContent.result.rows")),
                     4);
    f->interrupt = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                   "\"requestId\":\"y\"}}";
    assert_non_null(say(f, call)); /* another's cancellation changes nothing */
    f->interrupt = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                   "\"requestId\":\"x\",\"reason\":\"enough\"}}";
    f->interrupted_at = 99;
    assert_null(say(f, call));
    assert_int_equal(f->interrupted_at, 0);
    f->interrupt = NULL;
    assert_non_null(say(f, call)); /* and the session goes on */
}

static void resources_are_the_catalogs(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *list = orr_tree_path(
        say(f, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}"), "result.resources");
    assert_true(orr_tree_size(list) > 50);
    char line[512];
    size_t last = orr_tree_size(list) - 1;
    for (size_t i = 0; i <= last; i += last / 7) {
        (void)snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{"
                       "\"uri\":\"%s\"}}",
                       text_at(orr_tree_at(list, i), "uri"));
        const orr_tree *answer = say(f, line);
        const char *text = text_at(answer, "result.contents.0.text");
        assert_non_null(strstr(text, text_at(orr_tree_at(list, i), "name")));
    }
    static const char *const bad[] = {"orrery://model/", "orrery://model/no-such-model",
                                      "file:///etc/passwd", "orrery://model/../../etc/passwd",
                                      "orrery://hardware//etc/passwd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(line, sizeof line,
                       "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{"
                       "\"uri\":\"%s\"}}",
                       bad[i]);
        assert_int_equal(error_code(say(f, line)), -32002);
    }
}

static void bad_lines_get_their_code(void **state) {
    fixture *f = (fixture *)*state;
    static const struct {
        const char *line;
        int64_t code;
    } cases[] = {
        {"junk", -32700},
        {"{\"jsonrpc\":\"2.0\"", -32700},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32700},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600},
        {"{}", -32600},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32600},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}", -32601},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"2\"}}",
         -32602},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(error_code(say(f, cases[i].line)), cases[i].code);
        assert_int_equal(f->count, 1);
    }
    static const char *const silent[] = {"", " \r", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
                                         "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
                                         "cancelled\",\"params\":{\"requestId\":1}}"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        assert_null(say(f, silent[i]));
    }
    f->count = 0;
    mcp_too_long(&f->session);
    assert_int_equal(error_code(f->out[0]), -32600);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(handshake_offers_the_version_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_stateless_era_is_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_command_is_a_tool_with_a_strict_schema, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_language_model_is_reached, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_answers_twice_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_can_be_mended_is_a_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(progress_grows_and_a_cancelled_call_is_silent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(resources_are_the_catalogs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_lines_get_their_code, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
