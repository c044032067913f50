/* Any bytes as an event stream of each provider, and as a whole answer: what is folded can be read
 * and sent back, and pieces of any size give the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "llm/llm_int.h"
#include "llm/sse.h"

static bool fold_event(void *user, const char *name, const char *data, size_t length) {
    return orr_llm_fold_event((orr_llm_fold *)user, name, data, length);
}

static void use(orr_arena *arena, orr_llm_api api, const orr_tree *body) {
    orr_llm_reply reply;
    orr_err err = {0};
    if (orr_llm_read(arena, api, body, &reply, &err) != ORR_OK) {
        return;
    }
    llm_schema_read(arena, &reply); /* the same text as a call */
    orr_llm_endpoint endpoint = {.api = api, .model = "m", .stream = true};
    orr_llm_result results[ORR_LLM_MAX_CALLS];
    for (uint32_t i = 0; i < reply.call_count; i++) {
        results[i] = (orr_llm_result){reply.call[i].id, reply.call[i].args_text, i % 2 == 1};
    }
    orr_llm_turn turn[2] = {
        {.role = ORR_LLM_ASSISTANT, .raw = reply.raw},
        {.role = ORR_LLM_RESULTS, .result = results, .result_count = reply.call_count}};
    orr_llm_request request = {.turn = turn, .turn_count = 2};
    orr_tree *again = NULL;
    const char *sent = orr_write_json(arena, orr_llm_body(arena, &endpoint, &request), false);
    if (orr_json_read(arena, NULL, sent, strlen(sent), &again, &err) != ORR_OK) {
        abort();
    }
}

static const char *stream(orr_arena *arena, orr_llm_api api, const char *bytes, size_t size,
                          size_t piece) {
    orr_llm_fold *fold = orr_llm_fold_new(arena, api);
    orr_sse sse;
    orr_sse_open(&sse, fold_event, fold);
    for (size_t at = 0; at < size; at += piece) {
        if (!orr_sse_push(&sse, bytes + at, size - at < piece ? size - at : piece)) {
            break;
        }
    }
    orr_sse_close(&sse);
    const orr_tree *body = orr_llm_fold_body(fold);
    use(arena, api, body);
    return orr_write_json(arena, body, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int api = ORR_LLM_CHAT; api <= ORR_LLM_ANTHROPIC; api++) {
        orr_arena *arena = orr_arena_new();
        const char *bytes = (const char *)data;
        const char *once = stream(arena, (orr_llm_api)api, bytes, size, size + 1);
        if (strcmp(once, stream(arena, (orr_llm_api)api, bytes, size, 3)) != 0) {
            abort();
        }
        orr_tree *body = NULL;
        orr_err err = {0};
        if (orr_json_read(arena, NULL, bytes, size, &body, &err) == ORR_OK) {
            use(arena, (orr_llm_api)api, body);
        }
        (void)orr_llm_retry_after_s(body, 1700000000, 60);
        (void)orr_llm_pace_s(body, 1700000000);
        orr_arena_free(arena);
    }
    return 0;
}
