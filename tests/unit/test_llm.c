/* Every provider's format and every fault, over a transport that plays a script: no network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "doc/doc.h"
#include "llm/llm.h"
#include "llm/sse.h"

/* ---- a scripted transport ------------------------------------------------------------------- */

typedef struct scripted {
    int status;
    const char *headers; /* a JSON map, or NULL */
    const char *body;    /* events when it starts with "event:" or "data:" */
    orr_http_outcome outcome;
    size_t piece; /* bytes handed over at once; 0: all */
} scripted;

typedef struct stage {
    orr_arena *arena;
    const scripted *answer;
    uint32_t count, asked;
    const char *sent[8]; /* bodies */
    const char *header_text;
    double now_s, slept_s;
    uint32_t recorded;
    const orr_tree *record[16];
} stage;

static orr_status play(void *self, const orr_http_request *request, orr_arena *arena,
                       orr_http_response *out, orr_err *err) {
    stage *s = (stage *)self;
    (void)err;
    assert_true(s->asked < s->count);
    const scripted *a = &s->answer[s->asked];
    s->sent[s->asked++] = orr_arena_text(s->arena, request->body);
    orr_text all = orr_text_new(s->arena, 4096);
    for (size_t i = 0; i < ORR_HTTP_MAX_HEADERS && request->header[i] != NULL; i++) {
        orr_text_format(&all, "%s\n", request->header[i]);
    }
    s->header_text = orr_text_done(&all);
    *out = (orr_http_response){.outcome = a->outcome, .status = a->status};
    out->headers = orr_tree_new_map(arena);
    if (a->headers != NULL) {
        orr_err problem = {0};
        assert_int_equal(
            orr_json_read(arena, NULL, a->headers, strlen(a->headers), &out->headers, &problem),
            ORR_OK);
    }
    const char *body = a->body == NULL ? "" : a->body;
    out->events = strncmp(body, "event:", 6) == 0 || strncmp(body, "data:", 5) == 0 ||
                  strncmp(body, ":", 1) == 0;
    if (!out->events) {
        out->body = body;
        out->body_bytes = strlen(body);
        return ORR_OK;
    }
    size_t length = strlen(body), piece = a->piece == 0 ? length : a->piece;
    for (size_t at = 0; at < length; at += piece) {
        size_t n = length - at < piece ? length - at : piece;
        if (!request->on_event_bytes(request->user, body + at, n)) {
            out->outcome = ORR_HTTP_STOPPED;
            break;
        }
    }
    return ORR_OK;
}

static double now_s(void *user) {
    return ((stage *)user)->now_s;
}
static int64_t unix_s(void *user) {
    (void)user;
    return 1700000000;
}
static void sleep_s(void *user, double s) {
    ((stage *)user)->now_s += s;
    ((stage *)user)->slept_s += s;
}
static void record(void *user, const orr_tree *entry) {
    stage *s = (stage *)user;
    if (s->recorded < 16) {
        s->record[s->recorded++] = orr_tree_copy(s->arena, entry);
    }
}

static const char key[] = "sk-secret-0123456789";

static orr_llm_client client_of(stage *s, orr_llm_api api, bool stream) {
    orr_llm_endpoint endpoint = {.name = "test",
                                 .api = api,
                                 .url = "http://test/v1",
                                 .model = "m",
                                 .key = key,
                                 .stream = stream,
                                 .price_in = 1,
                                 .price_cached = -1,
                                 .price_out = 10};
    orr_http http = {play, s};
    orr_llm_world world = {now_s, unix_s, sleep_s, NULL, record, s};
    orr_llm_client client;
    orr_llm_client_open(&client, &endpoint, &http, &world);
    return client;
}

static stage stage_of(orr_arena *arena, const scripted *answer, uint32_t count) {
    stage s;
    memset(&s, 0, sizeof s);
    s.arena = arena;
    s.answer = answer;
    s.count = count;
    return s;
}

static orr_tree *json(orr_arena *arena, const char *text) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    assert_int_equal(orr_json_read(arena, "t", text, strlen(text), &tree, &err), ORR_OK);
    return tree;
}

#define assert_near(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

#define TOOL_SCHEMA                                                                                \
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"tp\":{\"type\":"        \
    "\"integer\"},\"why\":{\"type\":\"string\"}},\"required\":[\"why\"]}"

static orr_llm_failure ask(orr_llm_client *client, orr_arena *arena, orr_llm_reply *out) {
    orr_llm_turn turn = {.role = ORR_LLM_USER, .text = "go"};
    orr_llm_tool tool = {"evaluate", "tries a plan", json(arena, TOOL_SCHEMA)};
    orr_llm_request request = {.instructions = "be brief",
                               .turn = &turn,
                               .turn_count = 1,
                               .tool = &tool,
                               .tool_count = 1,
                               .max_out_tok = 100};
    return orr_llm_send(client, arena, &request, out);
}

/* ---- formats -------------------------------------------------------------------------------- */

static const char chat_body[] =
    "{\"id\":\"c1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"finish_reason\":\"tool_calls\","
    "\"message\":{\"role\":\"assistant\",\"content\":\"caf\xc3\xa9\",\"tool_calls\":["
    "{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"evaluate\",\"arguments\":"
    "\"{\\\"tp\\\":8,\\\"why\\\":\\\"x\\\"}\"}},"
    "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"evaluate\",\"arguments\":\"\"}}"
    "]}}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"prompt_tokens_details\":{"
    "\"cached_tokens\":40}}}";
static const char chat_events[] =
    ": keep-alive\n\n"
    "data: {\"id\":\"c1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
    "\"assistant\",\"content\":\"caf\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xc3\xa9\"}}]}\r\n\r\n"
    "data: "
    "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"type\":"
    "\"function\",\"function\":{\"name\":\"evaluate\",\"arguments\":\"{\\\"tp\\\"\"}}]}}]}\n\n"
    "data: "
    "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"type\":"
    "\"function\",\"function\":{\"name\":\"evaluate\",\"arguments\":\"\"}},{\"index\":0,"
    "\"function\":{\"arguments\":\":8,\\\"why\\\":\\\"x\\\"}\"}}]}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,"
    "\"prompt_tokens_details\":{\"cached_tokens\":40}}}\n\n"
    "data: [DONE]\n\n";

static const char responses_output[] =
    "{\"id\":\"r1\",\"model\":\"m-1\",\"status\":\"completed\",\"output\":["
    "{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"xyz\"},"
    "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"caf\xc3\xa9\"}]},"
    "{\"type\":\"function_call\",\"id\":\"f1\",\"call_id\":\"a\",\"name\":\"evaluate\","
    "\"arguments\":\"{\\\"tp\\\":8,\\\"why\\\":\\\"x\\\"}\"},"
    "{\"type\":\"function_call\",\"id\":\"f2\",\"call_id\":\"b\",\"name\":\"evaluate\","
    "\"arguments\":\"\"},{\"type\":\"novelty\",\"n\":1}],"
    "\"usage\":{\"input_tokens\":100,\"output_tokens\":20,\"input_tokens_details\":{"
    "\"cached_tokens\":40}}}";

static const char anthropic_body[] =
    "{\"id\":\"m1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m-1\",\"content\":["
    "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"sig\"},"
    "{\"type\":\"text\",\"text\":\"caf\xc3\xa9\"},"
    "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"evaluate\",\"input\":{\"tp\":8,\"why\":\"x\"}},"
    "{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"evaluate\",\"input\":{}}],"
    "\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":50,\"cache_read_input_tokens\":40,"
    "\"cache_creation_input_tokens\":10,\"output_tokens\":20}}";
static const char anthropic_events[] =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"role\":"
    "\"assistant\",\"model\":\"m-1\",\"content\":[],\"usage\":{\"input_tokens\":50,"
    "\"cache_read_input_tokens\":40,\"cache_creation_input_tokens\":10,\"output_tokens\":1}}}\n\n"
    "event: ping\ndata: {\"type\":\"ping\"}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
    "\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
    "\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
    "\"type\":\"signature_delta\",\"signature\":\"sig\"}}\n\n"
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,"
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{"
    "\"type\":\"text_delta\",\"text\":\"caf\xc3\xa9\"}}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,"
    "\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"evaluate\",\"input\":{}}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{"
    "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"tp\\\":8,\"}}\n\n"
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{"
    "\"type\":\"input_json_delta\",\"partial_json\":\"\\\"why\\\":\\\"x\\\"}\"}}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,"
    "\"content_block\":{\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"evaluate\",\"input\":{}}}\n\n"
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
    "\"tool_use\"},\"usage\":{\"output_tokens\":20}}\n\n"
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

static void check_reply(const orr_llm_reply *reply) {
    assert_string_equal(reply->text, "caf\xc3\xa9");
    assert_int_equal(reply->call_count, 2);
    assert_string_equal(reply->call[0].id, "a");
    assert_string_equal(reply->call[0].name, "evaluate");
    assert_int_equal(orr_tree_int(orr_tree_get(reply->call[0].args, "tp"), 0), 8);
    assert_string_equal(reply->call[1].id, "b");
    assert_non_null(reply->call[1].args);
    assert_int_equal(orr_tree_size(reply->call[1].args), 0);
    assert_int_equal(reply->stop, ORR_LLM_TOOLS);
    assert_int_equal(reply->usage.in, 100);
    assert_int_equal(reply->usage.cached_in, 40);
    assert_int_equal(reply->usage.out, 20);
    assert_string_equal(reply->model, "m-1");
}

static const char *responses_events(orr_arena *arena) {
    return orr_arena_format(
        arena,
        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0}\n\n"
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\","
        "\"delta\":\"caf\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\","
        "\"response\":%s}\n\n",
        responses_output);
}

static void all_formats_read_the_same(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const char *bodies[3] = {chat_body, responses_output, anthropic_body};
    const char *events[3] = {chat_events, responses_events(arena), anthropic_events};
    for (int api = 0; api < 3; api++) {
        scripted whole = {.status = 200, .body = bodies[api]};
        stage s = stage_of(arena, &whole, 1);
        orr_llm_client client = client_of(&s, (orr_llm_api)api, false);
        orr_llm_reply reply;
        assert_int_equal(ask(&client, arena, &reply), ORR_LLM_FINE);
        check_reply(&reply);
        /* 60 new, 40 cached at the same price, 20 out */
        assert_near(client.spent.dollars, (100 * 1 + 20 * 10) / 1e6);
        /* Streams in pieces of every size, also inside characters, give the same. */
        for (size_t piece = 1; piece < 40; piece += piece < 5 ? 1 : 11) {
            scripted stream = {.status = 200, .body = events[api], .piece = piece};
            stage t = stage_of(arena, &stream, 1);
            client = client_of(&t, (orr_llm_api)api, true);
            assert_int_equal(ask(&client, arena, &reply), ORR_LLM_FINE);
            check_reply(&reply);
        }
        assert_non_null(strstr(s.sent[0], "\"evaluate\""));
        assert_null(strstr(s.sent[0], key));
        assert_non_null(strstr(s.header_text, key));
    }
    orr_arena_free(arena);
}

/* What is sent back after two calls. */
static void turns_go_back_as_they_came(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const char *bodies[3] = {chat_body, responses_output, anthropic_body};
    static const char *const wanted[3] = {
        "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"fine\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"no\"}",
        "{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"fine\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":\"no\"}",
        "[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"fine\"},{\"type\":\"tool_"
        "result\",\"tool_use_id\":\"b\",\"content\":\"no\",\"is_error\":true}]"};
    for (int api = 0; api < 3; api++) {
        orr_llm_endpoint endpoint = {.api = (orr_llm_api)api, .model = "m"};
        orr_llm_reply reply;
        orr_err err = {0};
        assert_int_equal(
            orr_llm_read(arena, (orr_llm_api)api, json(arena, bodies[api]), &reply, &err), ORR_OK);
        orr_llm_result results[2] = {{"a", "fine", false}, {"b", "no", true}};
        orr_llm_turn turns[3] = {{.role = ORR_LLM_USER, .text = "go"},
                                 {.role = ORR_LLM_ASSISTANT, .raw = reply.raw},
                                 {.role = ORR_LLM_RESULTS, .result = results, .result_count = 2}};
        orr_llm_request request = {.turn = turns, .turn_count = 3};
        const char *sent = orr_write_json(arena, orr_llm_body(arena, &endpoint, &request), false);
        assert_non_null(strstr(sent, wanted[api]));
        static const char *const kept[3] = {"caf\xc3\xa9", "encrypted_content\":\"xyz\"",
                                            "\"signature\":\"sig\""};
        assert_non_null(strstr(sent, kept[api]));
        assert_true(api != ORR_LLM_RESPONSES || strstr(sent, "novelty") != NULL);
    }
    orr_arena_free(arena);
}

static void bad_arguments_are_told_apart_and_not_sent_back(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_llm_reply reply;
    orr_err err = {0};
    const orr_tree *body =
        json(arena,
             "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
             "{\"id\":\"a\",\"function\":{\"name\":\"evaluate\",\"arguments\":\"{tp:\"}},"
             "{\"id\":\"b\",\"function\":{\"name\":\"evaluate\",\"arguments\":\"[1]\"}},"
             "{\"id\":\"c\",\"function\":{\"name\":\"evaluate\",\"arguments\":{\"tp\":1}}}]}}]}");
    assert_int_equal(orr_llm_read(arena, ORR_LLM_CHAT, body, &reply, &err), ORR_OK);
    assert_null(reply.call[0].args);
    assert_null(reply.call[1].args);
    assert_int_equal(orr_tree_int(orr_tree_get(reply.call[2].args, "tp"), 0), 1);
    assert_int_equal(reply.stop, ORR_LLM_TOOLS);
    orr_llm_turn turn = {.role = ORR_LLM_ASSISTANT, .raw = reply.raw};
    orr_llm_endpoint endpoint = {.api = ORR_LLM_CHAT, .model = "m"};
    orr_llm_request request = {.turn = &turn, .turn_count = 1};
    assert_null(
        strstr(orr_write_json(arena, orr_llm_body(arena, &endpoint, &request), false), "{tp:"));
    orr_arena_free(arena);
}

static void strict_schemas_require_all(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const char *text =
        orr_write_json(arena, orr_llm_strict(arena, json(arena, TOOL_SCHEMA)), false);
    assert_non_null(strstr(text, "\"tp\":{\"type\":[\"integer\",\"null\"]}"));
    assert_non_null(strstr(text, "\"required\":[\"tp\",\"why\"]"));
    orr_arena_free(arena);
}

/* ---- faults --------------------------------------------------------------------------------- */

typedef struct fault {
    const char *what;
    orr_llm_api api;
    bool stream;
    scripted answer[3];
    uint32_t count, asked; /* how many are used */
    orr_llm_failure failure;
    double least_wait_s, most_wait_s;
} fault;

static const fault faults[] = {
    {"429 with Retry-After, then fine",
     ORR_LLM_CHAT,
     false,
     {{429, "{\"retry-after\":\"7\"}", "{\"error\":{\"message\":\"slow\",\"type\":\"rate\"}}", 0,
       0},
      {200, NULL, chat_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     7,
     7},
    {"429 with a date",
     ORR_LLM_ANTHROPIC,
     false,
     {{429, "{\"retry-after\":\"Tue, 14 Nov 2023 22:13:30 GMT\"}", "{}", 0, 0},
      {200, NULL, anthropic_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     10,
     10},
    {"429 without a hint",
     ORR_LLM_CHAT,
     false,
     {{429, NULL, "{}", 0, 0}, {200, NULL, chat_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"429 with a wait beyond reason",
     ORR_LLM_CHAT,
     false,
     {{429, "{\"retry-after\":\"86400\"}", "{}", 0, 0}, {200, NULL, chat_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"quota is not retried",
     ORR_LLM_CHAT,
     false,
     {{429, NULL, "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"pay\"}}", 0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"billing is not retried",
     ORR_LLM_ANTHROPIC,
     false,
     {{529, NULL, "{\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"x\"}}",
       0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"401",
     ORR_LLM_CHAT,
     false,
     {{401, NULL, "{\"error\":{\"message\":\"bad key sk-secret-0123456789\"}}", 0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"400 of a server without tools",
     ORR_LLM_CHAT,
     false,
     {{400, NULL, "{\"error\":\"tools need --jinja\"}", 0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"529 three times",
     ORR_LLM_ANTHROPIC,
     false,
     {{529, NULL, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}", 0, 0},
      {529, NULL, "{}", 0, 0},
      {529, NULL, "{}", 0, 0}},
     3,
     3,
     ORR_LLM_UNREACHED,
     1.125,
     1.5},
    {"the server says not to retry",
     ORR_LLM_CHAT,
     false,
     {{500, "{\"x-should-retry\":\"false\"}", "{}", 0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"the server says to retry",
     ORR_LLM_CHAT,
     false,
     {{400, "{\"x-should-retry\":\"true\"}", "{}", 0, 0}, {200, NULL, chat_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"no connection, then fine",
     ORR_LLM_CHAT,
     false,
     {{0, NULL, NULL, ORR_HTTP_NO_CONNECTION, 0}, {200, NULL, chat_body, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"error in mid-stream, then fine",
     ORR_LLM_CHAT,
     true,
     {{200, NULL,
       "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"error\":{\"type\":"
       "\"server_error\",\"message\":\"oops\"}}\n\n",
       0, 0},
      {200, NULL, chat_events, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"overload in mid-stream",
     ORR_LLM_ANTHROPIC,
     true,
     {{200, NULL,
       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
       "\"message\":\"busy\"}}\n\n",
       0, 0},
      {200, NULL, anthropic_events, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"a failed response",
     ORR_LLM_RESPONSES,
     true,
     {{200, NULL,
       "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":"
       "\"failed\",\"error\":{\"code\":\"invalid_prompt\",\"message\":\"no\"}}}\n\n",
       0, 0}},
     1,
     1,
     ORR_LLM_REFUSED,
     0,
     0},
    {"half a stream, three times",
     ORR_LLM_CHAT,
     true,
     {{200, NULL, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", 0, 0},
      {200, NULL, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"cho", 0, 0},
      {200, NULL, "data: {\"choices\":[{\"delta\":{\"con", ORR_HTTP_STALLED, 0}},
     3,
     3,
     ORR_LLM_UNUSABLE,
     1.125,
     1.5},
    {"a stream of no JSON, then fine",
     ORR_LLM_CHAT,
     true,
     {{200, NULL, "data: {oops\n\n", 0, 0}, {200, NULL, chat_events, 0, 0}},
     2,
     2,
     ORR_LLM_FINE,
     0.375,
     0.5},
    {"a page instead of an answer",
     ORR_LLM_CHAT,
     false,
     {{200, NULL, "<html>proxy</html>", 0, 0},
      {200, NULL, "{\"hello\":1}", 0, 0},
      {200, NULL, "", 0, 0}},
     3,
     3,
     ORR_LLM_UNUSABLE,
     1.125,
     1.5},
    {"more than can be read",
     ORR_LLM_CHAT,
     false,
     {{200, NULL, "{", ORR_HTTP_TOO_LARGE, 0}},
     1,
     1,
     ORR_LLM_UNUSABLE,
     0,
     0},
    {"a stream that ends without its end, but with a reason",
     ORR_LLM_CHAT,
     true,
     {{200, NULL,
       "data: {\"choices\":[{\"delta\":{\"content\":\"caf\xc3\xa9\"},\"finish_reason\":\"stop\"}]}"
       "\n\n",
       0, 0}},
     1,
     1,
     ORR_LLM_FINE,
     0,
     0},
};

static void faults_end_as_they_should(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault *f = &faults[i];
        orr_arena *arena = orr_arena_new();
        stage s = stage_of(arena, f->answer, f->count);
        orr_llm_client client = client_of(&s, f->api, f->stream);
        orr_llm_reply reply;
        orr_llm_failure failure = ask(&client, arena, &reply);
        if (failure != f->failure || s.asked != f->asked || s.slept_s < f->least_wait_s - 1e-9 ||
            s.slept_s > f->most_wait_s + 1e-9) {
            fail_msg("%s: %s after %u requests and %g s (%s)", f->what,
                     orr_llm_failure_name(failure), s.asked, s.slept_s, client.why);
        }
        assert_true((failure == ORR_LLM_FINE) == (client.why[0] == '\0') ||
                    failure == ORR_LLM_FINE);
        assert_null(strstr(client.why, key));
        /* Every turn leaves one entry in the record, and none of them holds the key. */
        assert_int_equal(s.recorded, 1);
        assert_null(strstr(orr_write_json(arena, s.record[0], false), key));
        orr_arena_free(arena);
    }
}

static void refusals_pauses_and_lengths_are_told(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const struct {
        orr_llm_api api;
        const char *body;
        orr_llm_stop stop;
    } cases[] = {
        {ORR_LLM_CHAT, "{\"choices\":[{\"message\":{\"refusal\":\"no\"}}]}", ORR_LLM_REFUSAL},
        {ORR_LLM_CHAT, "{\"choices\":[{\"finish_reason\":\"length\",\"message\":{}}]}",
         ORR_LLM_LENGTH},
        {ORR_LLM_ANTHROPIC, "{\"content\":[],\"stop_reason\":\"refusal\"}", ORR_LLM_REFUSAL},
        {ORR_LLM_ANTHROPIC, "{\"content\":[],\"stop_reason\":\"pause_turn\"}", ORR_LLM_PAUSE},
        {ORR_LLM_ANTHROPIC, "{\"content\":[],\"stop_reason\":\"model_context_window_exceeded\"}",
         ORR_LLM_LENGTH},
        {ORR_LLM_RESPONSES,
         "{\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}"
         "]"
         "}]}",
         ORR_LLM_REFUSAL},
        {ORR_LLM_RESPONSES,
         "{\"output\":[],\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":"
         "\"max_output_tokens\"}}",
         ORR_LLM_LENGTH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_llm_reply reply;
        orr_err err = {0};
        assert_int_equal(
            orr_llm_read(arena, cases[i].api, json(arena, cases[i].body), &reply, &err), ORR_OK);
        assert_int_equal(reply.stop, cases[i].stop);
        assert_false(reply.usage.known);
    }
    orr_arena_free(arena);
}

static void budgets_stop_before_the_next_request(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    scripted answers[3] = {{.status = 200, .body = chat_body},
                           {.status = 200, .body = chat_body},
                           {.status = 200, .body = chat_body}};
    static const struct {
        orr_llm_limits limits;
        uint32_t asked;
        const char *why;
    } cases[] = {{{.requests = 2}, 2, "requests"},
                 {{.tokens = 121}, 2, "tokens"},
                 {{.tokens = 120}, 1, "tokens"},
                 {{.dollars = 0.0003}, 1, "dollars"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stage s = stage_of(arena, answers, 3);
        orr_llm_client client = client_of(&s, ORR_LLM_CHAT, false);
        client.limits = cases[i].limits;
        orr_llm_reply reply;
        orr_llm_failure failure = ORR_LLM_FINE;
        for (int n = 0; n < 3 && failure == ORR_LLM_FINE; n++) {
            failure = ask(&client, arena, &reply);
        }
        assert_int_equal(failure, ORR_LLM_BUDGET);
        assert_int_equal(s.asked, cases[i].asked);
        assert_string_equal(client.why, cases[i].why);
    }
    orr_arena_free(arena);
}

static void limits_told_by_the_provider_are_kept(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    scripted answers[2] = {
        {.status = 200,
         .headers = "{\"x-ratelimit-remaining-requests\":\"0\",\"x-ratelimit-reset-requests\":"
                    "\"1m2.5s\",\"x-ratelimit-remaining-tokens\":\"9\"}",
         .body = chat_body},
        {.status = 200, .body = chat_body}};
    stage s = stage_of(arena, answers, 2);
    orr_llm_client client = client_of(&s, ORR_LLM_CHAT, false);
    orr_llm_reply reply;
    assert_int_equal(ask(&client, arena, &reply), ORR_LLM_FINE);
    assert_int_equal(ask(&client, arena, &reply), ORR_LLM_FINE);
    assert_near(s.slept_s, 62.5);
    const orr_tree *anthropic =
        json(arena, "{\"anthropic-ratelimit-input-tokens-remaining\":\"0\","
                    "\"anthropic-ratelimit-input-tokens-reset\":\"2023-11-14T22:13:50Z\"}");
    assert_near(orr_llm_pace_s(anthropic, 1700000000), 30);
    orr_arena_free(arena);
}

static void a_record_replays_without_a_network(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    scripted answers[2] = {{.status = 200, .body = chat_body},
                           {.status = 401, .body = "{\"error\":{\"message\":\"no\"}}"}};
    stage s = stage_of(arena, answers, 2);
    orr_llm_client client = client_of(&s, ORR_LLM_CHAT, false);
    orr_llm_reply reply;
    assert_int_equal(ask(&client, arena, &reply), ORR_LLM_FINE);
    assert_int_equal(ask(&client, arena, &reply), ORR_LLM_REFUSED);
    orr_tree *list = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < s.recorded; i++) {
        (void)orr_tree_push(arena, list, orr_tree_copy(arena, s.record[i]));
    }
    stage none = stage_of(arena, NULL, 0);
    orr_llm_client again = client_of(&none, ORR_LLM_CHAT, false);
    again.replay = list;
    assert_int_equal(ask(&again, arena, &reply), ORR_LLM_FINE);
    check_reply(&reply);
    assert_int_equal(ask(&again, arena, &reply), ORR_LLM_REFUSED);
    assert_int_equal(ask(&again, arena, &reply), ORR_LLM_UNUSABLE);
    assert_int_equal(none.asked, 0);
    orr_arena_free(arena);
}

/* ---- endpoints ------------------------------------------------------------------------------ */

static void providers_are_found_by_name_and_url(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const struct {
        const char *target, *api, *name, *url;
        orr_llm_api kind;
    } cases[] = {
        {"openai", NULL, "openai", "https://api.openai.com/v1", ORR_LLM_CHAT},
        {"openai-responses", NULL, "openai-responses", "https://api.openai.com/v1",
         ORR_LLM_RESPONSES},
        {"anthropic", NULL, "anthropic", "https://api.anthropic.com", ORR_LLM_ANTHROPIC},
        {"http://localhost:11434/v1/", NULL, "ollama", "http://localhost:11434/v1", ORR_LLM_CHAT},
        {"http://127.0.0.1:8080/v1", "anthropic", "llama-cpp", "http://127.0.0.1:8080",
         ORR_LLM_ANTHROPIC},
        {"http://box:9999/v1", NULL, "compatible", "http://box:9999/v1", ORR_LLM_CHAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_llm_endpoint e;
        orr_err err = {0};
        assert_int_equal(orr_llm_find(arena, cases[i].target, cases[i].api, "m", NULL, &e, &err),
                         ORR_OK);
        assert_string_equal(e.name, cases[i].name);
        assert_string_equal(e.url, cases[i].url);
        assert_int_equal(e.api, cases[i].kind);
    }
    orr_llm_endpoint e;
    orr_err err = {0};
    assert_int_equal(orr_llm_find(arena, "opneai", NULL, "m", NULL, &e, &err), ORR_E_NAME);
    assert_int_equal(orr_llm_find(arena, "compatible", NULL, "m", NULL, &e, &err), ORR_E_USAGE);
    assert_int_equal(orr_llm_find(arena, "openai", "soap", "m", NULL, &e, &err), ORR_E_NAME);
    assert_int_equal(orr_llm_find(arena, "openai", NULL, "m", "/no/such/file", &e, &err), ORR_E_IO);
    orr_arena_free(arena);
}

/* ---- event streams -------------------------------------------------------------------------- */

typedef struct seen {
    orr_text text;
} seen;

static bool keep_event(void *user, const char *name, const char *data, size_t length) {
    orr_text_format(&((seen *)user)->text, "[%s|%.*s]", name, (int)length, data);
    return true;
}

static void streams_split_as_the_standard_says(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"data: a\n\ndata:b\n\n", "[|a][|b]"},
        {"event: x\r\ndata: a\r\ndata:  b\r\n\r\n", "[x|a\n b]"},
        {"data\rdata\r\rdata: z\r\r", "[|\n][|z]"},
        {": note\nid: 1\nretry: 2\nfoo: 3\n\ndata: a\n\n", "[|a]"},
        {"\xef\xbb\xbf"
         "data: a\n\n",
         "[|a]"},
        {"event: lost\n\ndata: a\n\n", "[|a]"},
        {"data: never ended\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t piece = 1; piece < 6; piece++) {
            orr_arena *arena = orr_arena_new();
            seen s = {orr_text_new(arena, 4096)};
            orr_sse sse;
            orr_sse_open(&sse, keep_event, &s);
            for (size_t at = 0; at < strlen(cases[i].in); at += piece) {
                size_t left = strlen(cases[i].in) - at;
                assert_true(orr_sse_push(&sse, cases[i].in + at, left < piece ? left : piece));
            }
            orr_sse_close(&sse);
            assert_string_equal(orr_text_done(&s.text), cases[i].out);
            orr_arena_free(arena);
        }
    }
}

static void endless_lines_are_refused(void **state) {
    (void)state;
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    orr_sse sse;
    orr_arena *arena = orr_arena_new();
    seen s = {orr_text_new(arena, 64)};
    orr_sse_open(&sse, keep_event, &s);
    size_t pushed = 0;
    while (pushed < 4 * (size_t)ORR_SSE_MAX_LINE && orr_sse_push(&sse, block, sizeof block)) {
        pushed += sizeof block;
    }
    assert_true(pushed <= ORR_SSE_MAX_LINE);
    orr_sse_close(&sse);
    /* 64 KiB in one line is fine. */
    orr_sse_open(&sse, keep_event, &s);
    assert_true(orr_sse_push(&sse, "data: ", 6));
    assert_true(orr_sse_push(&sse, block, sizeof block));
    assert_true(orr_sse_push(&sse, "\n\n", 2));
    orr_sse_close(&sse);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_read_the_same),
        cmocka_unit_test(turns_go_back_as_they_came),
        cmocka_unit_test(bad_arguments_are_told_apart_and_not_sent_back),
        cmocka_unit_test(strict_schemas_require_all),
        cmocka_unit_test(faults_end_as_they_should),
        cmocka_unit_test(refusals_pauses_and_lengths_are_told),
        cmocka_unit_test(budgets_stop_before_the_next_request),
        cmocka_unit_test(limits_told_by_the_provider_are_kept),
        cmocka_unit_test(a_record_replays_without_a_network),
        cmocka_unit_test(providers_are_found_by_name_and_url),
        cmocka_unit_test(streams_split_as_the_standard_says),
        cmocka_unit_test(endless_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
