/* Language models over their wire formats: OpenAI Chat Completions, OpenAI Responses, Anthropic
 * Messages, and the local servers that imitate them. One model of a conversation inside, three
 * adapters outside; an assistant's turn is kept in the provider's own words and sent back verbatim.
 * docs/llm.md; each adapter names the protocol that it speaks. */
#ifndef ORR_LLM_H
#define ORR_LLM_H

#include "base/rng.h"
#include "llm/http.h"

/* ---- endpoint ------------------------------------------------------------------------------- */

typedef enum orr_llm_api { ORR_LLM_CHAT = 0, ORR_LLM_RESPONSES, ORR_LLM_ANTHROPIC } orr_llm_api;
const char *orr_llm_api_name(orr_llm_api api);

/* What servers do differently (data/llm/providers.yaml names them). */
typedef struct orr_llm_quirks {
    bool no_tool_choice, no_parallel, no_stream_usage, no_strict;
    bool old_max_tokens;   /* reads max_tokens, not max_completion_tokens */
    bool developer_role;   /* system prompts are developer's */
    bool args_are_objects; /* tool arguments come as objects */
} orr_llm_quirks;

/* How a model is brought to call tools. */
typedef enum orr_llm_calls {
    ORR_LLM_CALLS_NATIVE = 0, /* as the interface has it; the model may also talk */
    ORR_LLM_CALLS_REQUIRED,   /* the same, and every turn must call */
    ORR_LLM_CALLS_SCHEMA      /* Chat Completions: the answer is one object of a schema, a call */
} orr_llm_calls;
const char *orr_llm_calls_name(orr_llm_calls calls);

typedef struct orr_llm_endpoint {
    const char *name; /* "openai", "ollama" ... */
    orr_llm_api api;
    const char *url; /* base; the adapter adds its path */
    const char *model;
    const char *key;      /* NULL: none. Only ever put into a header */
    const char *key_from; /* where it was found, to be told */
    orr_llm_quirks quirks;
    bool stream;
    orr_llm_calls calls;
    double temperature;                       /* negative: the server's own */
    double price_in, price_cached, price_out; /* dollars per million tokens; negative: unknown */
} orr_llm_endpoint;

/* target: a provider's name or a base URL; api: NULL for the provider's own. The key comes from
 * key_file, ORRERY_API_KEY_FILE, or the provider's environment variables, in that order. */
orr_status orr_llm_find(orr_arena *arena, const char *target, const char *api, const char *model,
                        const char *key_file, orr_llm_endpoint *out, orr_err *err);

/* The prices of the endpoint's model from a user's file: {as_of, source, prices: [{model, provider,
 * in, cached_in, out}]}, dollars per million tokens; the first entry that matches, a model may end
 * in *. ORR_E_NAME when there is none. */
orr_status orr_llm_find_price(orr_arena *arena, const char *path, orr_llm_endpoint *endpoint,
                              orr_err *err);

/* ---- conversation --------------------------------------------------------------------------- */

enum {
    ORR_LLM_MAX_CALLS = 64,      /* of one reply */
    ORR_LLM_MAX_TEXT = 1 << 20,  /* bytes of a reply's text */
    ORR_LLM_MAX_ARGS = 256 << 10 /* bytes of one call's arguments */
};

typedef struct orr_llm_tool {
    const char *name, *description;
    const orr_tree *schema; /* JSON Schema of an object */
} orr_llm_tool;

typedef struct orr_llm_call {
    const char *id, *name;
    const char *args_text; /* as it came; may be anything */
    const orr_tree *args;  /* a map, or NULL when the text is no JSON object */
} orr_llm_call;

typedef enum orr_llm_stop {
    ORR_LLM_END = 0,
    ORR_LLM_TOOLS,
    ORR_LLM_LENGTH,
    ORR_LLM_REFUSAL,
    ORR_LLM_PAUSE /* to be sent back as it is */
} orr_llm_stop;

typedef struct orr_llm_usage {
    int64_t in, cached_in, out, reasoning; /* tokens; in includes cached_in */
    bool known;
} orr_llm_usage;

typedef struct orr_llm_reply {
    const orr_tree *raw;  /* the assistant's turn in the provider's words; sent back verbatim */
    const orr_tree *body; /* the whole answer, as if it had not been streamed */
    const char *text;
    orr_llm_call *call;
    uint32_t call_count;
    orr_llm_stop stop;
    orr_llm_usage usage;
    const char *model, *request_id;
} orr_llm_reply;

typedef struct orr_llm_result {
    const char *call_id, *content;
    bool is_error;
} orr_llm_result;

typedef enum orr_llm_role { ORR_LLM_USER, ORR_LLM_ASSISTANT, ORR_LLM_RESULTS } orr_llm_role;
typedef struct orr_llm_turn {
    orr_llm_role role;
    const char *text;             /* of a user; or what follows the results, may be NULL */
    const orr_tree *raw;          /* of an assistant */
    const orr_llm_result *result; /* of the calls of the turn before, all of them */
    uint32_t result_count;
} orr_llm_turn;

typedef struct orr_llm_request {
    const char *instructions;
    const orr_llm_turn *turn;
    uint32_t turn_count;
    const orr_llm_tool *tool;
    uint32_t tool_count;
    bool must_call; /* a tool */
    uint32_t max_out_tok;
} orr_llm_request;

/* ---- adapters (pure) ------------------------------------------------------------------------ */

/* The body of a request, and its path under the endpoint's URL. */
orr_tree *orr_llm_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                       const orr_llm_request *request);
const char *orr_llm_path(orr_llm_api api);
/* An answer's body, streamed or not. ORR_E_SCHEMA when it is none. */
orr_status orr_llm_read(orr_arena *arena, orr_llm_api api, const orr_tree *body, orr_llm_reply *out,
                        orr_err *err);
/* A schema as strict mode wants it: nothing else allowed, all required, optional ones nullable. */
orr_tree *orr_llm_strict(orr_arena *arena, const orr_tree *schema);

/* Events folded into the body that the same answer has when it is not streamed. */
typedef struct orr_llm_fold orr_llm_fold;
orr_llm_fold *orr_llm_fold_new(orr_arena *arena, orr_llm_api api);
/* False when the event ends the stream in error; see orr_llm_fold_error. */
bool orr_llm_fold_event(orr_llm_fold *fold, const char *name, const char *data, size_t length);
bool orr_llm_fold_done(const orr_llm_fold *fold);             /* its last event came */
const orr_tree *orr_llm_fold_error(const orr_llm_fold *fold); /* {type, code, message} or NULL */
const orr_tree *orr_llm_fold_body(orr_llm_fold *fold);

/* ---- client --------------------------------------------------------------------------------- */

/* Limits of a run; zero is none. */
typedef struct orr_llm_limits {
    int64_t tokens; /* in and out */
    double dollars, wall_s;
    uint32_t requests;
} orr_llm_limits;

typedef struct orr_llm_spent {
    orr_llm_usage usage;
    double dollars;
    bool dollars_known;
    uint32_t requests, retries, uncounted; /* answers without usage */
    double waited_s;
} orr_llm_spent;

/* Everything that a client asks of its surroundings, so that tests can stand in. */
typedef struct orr_llm_world {
    double (*now_s)(void *user);
    int64_t (*unix_s)(void *user);
    void (*sleep_s)(void *user, double s);
    bool (*go_on)(void *user); /* false cancels; may be NULL */
    /* One line of the record of a run; may be NULL. */
    void (*record)(void *user, const orr_tree *entry);
    void *user;
} orr_llm_world;

typedef enum orr_llm_failure {
    ORR_LLM_FINE = 0,
    ORR_LLM_BUDGET,    /* a limit was reached; `why` names it */
    ORR_LLM_REFUSED,   /* the provider will not: key, quota, request */
    ORR_LLM_UNUSABLE,  /* what came is no answer, after all retries */
    ORR_LLM_UNREACHED, /* no connection, time-out or overload, after all retries */
    ORR_LLM_CANCELLED
} orr_llm_failure;
const char *orr_llm_failure_name(orr_llm_failure failure);

typedef struct orr_llm_client {
    orr_llm_endpoint endpoint;
    orr_http http;
    orr_llm_world world;
    orr_llm_limits limits;
    orr_llm_spent spent;
    orr_rng rng; /* jitter of waits */
    uint32_t max_retries;
    double connect_s, total_s, idle_s;
    double first_wait_s;       /* between retries; doubled each time */
    double start_s, free_at_s; /* paced: not before */
    const orr_tree *replay;    /* recorded replies, in order; NULL: live */
    uint32_t replayed;
    char why[256]; /* of the last failure; never holds a key */
} orr_llm_client;

/* The official clients' waits: 2 retries, 5 s to connect, 600 s in all; and 120 s of silence. */
void orr_llm_client_open(orr_llm_client *client, const orr_llm_endpoint *endpoint,
                         const orr_http *http, const orr_llm_world *world);
/* One turn of the model, with retries. Failures are outcomes, not errors: the run ends with what it
 * has. */
orr_llm_failure orr_llm_send(orr_llm_client *client, orr_arena *arena,
                             const orr_llm_request *request, orr_llm_reply *out);

/* Seconds to wait that an answer's headers ask for; negative when they say nothing usable. */
double orr_llm_retry_after_s(const orr_tree *headers, int64_t unix_s, double most_s);
/* Seconds until a rate limit's window opens again, when nothing remains of it; else 0. */
double orr_llm_pace_s(const orr_tree *headers, int64_t unix_s);

#endif
