/* `orrery tune --llm`: the search, then a language model that questions it. Also `llm doctor`. */
#include <stddef.h>
#include <string.h>

#include "agent/agent.h"
#include "api/api.h"
#include "base/err.h"
#include "base/num.h"
#include "base/os_file.h"
#include "base/os_host.h"
#include "doc/doc.h"
#include "orrery/report.h"
#include "store/store.h"

enum { MAX_TRANSCRIPT = 64 << 20 };

typedef struct llm_args {
    const char *llm, *model, *api, *key_file, *calls, *price, *tools, *svg, *prices, *transcript,
        *replay, *guidance;
    const orr_tree *device;
    uint32_t rounds, turns, patience, tool_calls, evaluations, requests, context, out,
        device_trials, experts;
    uint64_t tokens;
    double dollars, seconds, device_s, retry_s, idle_s, temperature;
    bool stream, blind, fairness;
} llm_args;

#define FIELD(label, kind, member, low, high, fallback_, unit_, text)                              \
    {.name = label,                                                                                \
     .type = ORR_FIELD_##kind,                                                                     \
     .offset = offsetof(llm_args, member),                                                         \
     .min = low,                                                                                   \
     .max = high,                                                                                  \
     .fallback = fallback_,                                                                        \
     .unit = unit_,                                                                                \
     .doc = text}
static const orr_field fields[] = {
    FIELD("llm", TEXT, llm, 0, 0, "", NULL,
          "let a language model question the search: openai, openai-responses, anthropic, ollama, "
          "vllm, llama-cpp, or the base URL of a compatible server"),
    FIELD("llm_model", TEXT, model, 0, 0, "", NULL, "name of the model"),
    FIELD("llm_api", TEXT, api, 0, 0, "", NULL,
          "chat, responses or anthropic; default: the provider's own"),
    FIELD("llm_key_file", TEXT, key_file, 0, 0, "", NULL,
          "file that holds the key; default: ORRERY_API_KEY_FILE, then the provider's variable"),
    FIELD("llm_stream", BOOL, stream, 0, 0, "on", NULL, "answers come as event streams"),
    FIELD("llm_calls", TEXT, calls, 0, 0, "native", NULL,
          "native: tools as the interface has them; required: every turn must call one; schema: "
          "for models that know no tools, the answer is constrained to the schema of a call"),
    FIELD("llm_temperature", REAL, temperature, 0, 2, "", NULL,
          "how freely it samples; default: the server's own"),
    FIELD("llm_rounds", U32, rounds, 1, 64, "4", NULL, "rounds, each a conversation of its own"),
    FIELD("llm_turns", U32, turns, 1, 100, "12", NULL, "turns of the model in a round"),
    FIELD("llm_patience", U32, patience, 1, 64, "2", NULL, "rounds without gain before it ends"),
    FIELD("llm_tool_calls", U32, tool_calls, 1, 2000, "60", NULL, "tool calls in all"),
    FIELD("llm_evaluations", U32, evaluations, 1, 480, "64", NULL, "plans that it may try"),
    FIELD("llm_requests", U32, requests, 0, 10000, "0", NULL, "requests in all; 0: any"),
    FIELD("llm_tokens", U64, tokens, 0, 0, "0", "tokens", "tokens in and out; 0: any"),
    FIELD("llm_dollars", REAL, dollars, 0, 0, "0", NULL,
          "money, with llm_price or llm_prices; 0: any"),
    FIELD("llm_price", TEXT, price, 0, 0, "", NULL,
          "IN,OUT or IN,CACHED,OUT: dollars per million tokens"),
    FIELD("llm_prices", TEXT, prices, 0, 0, "", NULL,
          "file with the prices of models (docs/llm.md); where llm_price is not given"),
    FIELD("llm_seconds", QUANTITY, seconds, 0, 0, "0", "s", "wall time; 0: any"),
    FIELD("llm_context", U32, context, 0, 1 << 30, "0", "tokens",
          "context of the model; a round ends before it is full"),
    FIELD("llm_out", U32, out, 16, 1 << 20, "2048", "tokens", "longest answer"),
    FIELD("llm_tools", TEXT, tools, 0, 0, "", NULL,
          "names with commas: the tools that it is given; default: all"),
    FIELD("llm_experts", U32, experts, 0, 1000, "8", NULL,
          "questions to named experts, each a request of its own; 0: none"),
    FIELD("llm_retry_wait", QUANTITY, retry_s, 0, 8, "0.5", "s",
          "first wait before a retry, doubled each time, where the server names none"),
    FIELD("llm_idle", QUANTITY, idle_s, 0.1, 3600, "120", "s",
          "silence in mid-answer after which it is asked again"),
    FIELD("llm_blind", BOOL, blind, 0, 0, "off", NULL, "do not show it what the search found"),
    FIELD("llm_fairness", BOOL, fairness, 0, 0, "on", NULL,
          "give random and hill-climbing search the same budget, and compare"),
    FIELD("llm_svg", TEXT, svg, 0, 0, "", NULL,
          "write best so far by trial as SVG to this path: the model, random plans, hill-climbing "
          "and the certified best"),
    FIELD("guidance", TEXT, guidance, 0, 0, "", NULL, "what the model should know or look at"),
    FIELD("replay_device", TREE, device, 0, 0, "", NULL,
          "file of {plan, tokens_per_s_per_gpu}: a device that replays these measurements"),
    FIELD("device_trials", U32, device_trials, 0, 64, "16", NULL, "measurements that may be run"),
    FIELD("device_s", QUANTITY, device_s, 0, 0, "3600", "s", "device time for measurements"),
    FIELD("transcript", TEXT, transcript, 0, 0, "", NULL,
          "write all that was said and done to this file, one JSON object a line"),
    FIELD("replay", TEXT, replay, 0, 0, "", NULL,
          "answer from a transcript instead of a server: no network, no key"),
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };
static const orr_schema schema = {
    .title = "investigation", .fields = fields, .count = FIELD_COUNT, .open = true};
/* What the doctor takes of them. */
static const orr_schema doctor_schema = {
    .title = "llm doctor", .fields = fields, .count = 7, .open = true};

orr_tree *orr_llm_fields(orr_arena *arena, bool doctor) {
    return orr_schema_fields(doctor ? &doctor_schema : &schema, arena);
}

bool orr_is_llm_argument(const char *key) {
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- surroundings --------------------------------------------------------------------------- */

typedef struct run {
    orr_job *job;
    double start_s;
    const char *transcript; /* path; NULL: none is written */
    orr_text lines;
    orr_status written;
    orr_err problem;
} run;

static double now_s(void *user) {
    (void)user;
    return orr_os_now_s();
}

static int64_t unix_s(void *user) {
    (void)user;
    return orr_os_unix_s();
}

static bool go_on(void *user) {
    const orr_ctx *ctx = ((run *)user)->job->ctx;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, "model", 0, 0);
}

/* In slices, so that a long wait can be cancelled. */
static void sleep_s(void *user, double s) {
    for (double left = s; left > 0 && go_on(user); left -= 0.25) {
        orr_os_sleep_s(orr_min_f64(left, 0.25));
    }
}

static const char *verdict_of(orr_arena *arena, const orr_tree *trial) {
    const orr_tree *rules = orr_tree_get(trial, "rules"), *error = orr_tree_get(trial, "error");
    orr_text out = orr_text_new(arena, 512);
    if (error != NULL) {
        orr_text_format(&out, "unreadable: %s", orr_tree_text(error, ""));
    } else if (!orr_tree_bool(orr_tree_get(trial, "legal"), false)) {
        orr_text_add(&out, "illegal");
        for (size_t i = 0; i < orr_tree_size(rules); i++) {
            orr_text_format(&out, "%s %s", i == 0 ? ":" : ",",
                            orr_tree_text(orr_tree_get(orr_tree_at(rules, i), "id"), ""));
        }
    } else {
        orr_text_add(&out,
                     orr_tree_bool(orr_tree_get(trial, "fits"), false) ? "fits" : "does not fit");
    }
    return orr_text_done(&out);
}

/* Every proposal with its verdict and reason, and every measurement, goes to the store at once. */
static void keep_trial(run *r, const char *kind, const orr_tree *entry) {
    static const char *const kinds[][2] = {
        {"model", "proposal"}, {"model's search", "proposal"}, {"device", "device"}};
    const char *source = orr_tree_text(orr_tree_get(entry, "source"), "");
    if (r->job->store == NULL || r->written != ORR_OK ||
        (strcmp(kind, "trial") != 0 && strcmp(kind, "measurement") != 0)) {
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(source, kinds[i][0]) == 0) {
            orr_trial trial = {
                .kind = kinds[i][1],
                .plan = orr_write_json(r->job->arena, orr_tree_get(entry, "keys"), false),
                .tokens_per_s_per_gpu =
                    orr_tree_real(orr_tree_get(entry, "tokens_per_s_per_gpu"), 0),
                .step_s = orr_tree_real(orr_tree_get(entry, "step_time_s"), 0),
                .need_bytes = orr_tree_real(orr_tree_get(entry, "need_bytes"), 0),
                .at_s = orr_os_now_s() - r->start_s,
                .verdict = verdict_of(r->job->arena, entry),
                .why = orr_tree_text(orr_tree_get(entry, "why"), NULL)};
            r->written = orr_store_add_trial(r->job->store, r->job->search, &trial, &r->problem);
        }
    }
}

/* The file is whole after every answer of the model: a kill loses one turn at most. */
static void record(void *user, const orr_tree *entry) {
    run *r = (run *)user;
    keep_trial(r, orr_tree_text(orr_tree_get(entry, "kind"), ""), entry);
    if (r->transcript == NULL) {
        return;
    }
    orr_text_add(&r->lines, orr_write_json(r->job->arena, entry, false));
    orr_text_add(&r->lines, "\n");
    const char *kind = orr_tree_text(orr_tree_get(entry, "kind"), "");
    bool flush =
        strcmp(kind, "reply") == 0 || strcmp(kind, "end") == 0 || strcmp(kind, "failure") == 0;
    if (flush && r->written == ORR_OK) {
        r->written = orr_os_write_file(r->transcript, orr_text_done(&r->lines), r->lines.length,
                                       &r->problem);
    }
}

static orr_status ask(void *user, const char *command, const orr_tree *args, orr_arena *arena,
                      orr_tree **result, orr_err *err) {
    return orr_call(((orr_job *)user)->ctx, command, args, arena, result, err);
}

static bool tell(void *user, const char *what, double done, double total) {
    const orr_ctx *ctx = ((orr_job *)user)->ctx;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, what, done, total);
}

/* ---- client --------------------------------------------------------------------------------- */

static orr_status read_price(const char *text, orr_llm_endpoint *e, orr_err *err) {
    double value[3] = {0};
    int count = 0;
    for (const char *p = text; *p != '\0' && count < 3; count++) {
        char number[32];
        size_t length = strcspn(p, ",");
        if (length == 0 || length >= sizeof number) {
            break;
        }
        memcpy(number, p, length);
        number[length] = '\0';
        if (!orr_parse_real(number, &value[count]) || value[count] < 0) {
            break;
        }
        p += length + (p[length] == ',');
    }
    if (count < 2) {
        return orr_fail(err, ORR_E_SCHEMA, "llm_price '%s' is not IN,OUT or IN,CACHED,OUT", text);
    }
    e->price_in = value[0];
    e->price_cached = count == 3 ? value[1] : value[0];
    e->price_out = value[count - 1];
    return ORR_OK;
}

static orr_status read_calls(const char *text, orr_llm_endpoint *e, orr_err *err) {
    for (int i = ORR_LLM_CALLS_NATIVE; text != NULL && i <= ORR_LLM_CALLS_SCHEMA; i++) {
        if (strcmp(text, orr_llm_calls_name((orr_llm_calls)i)) == 0) {
            e->calls = (orr_llm_calls)i;
            text = NULL;
        }
    }
    if (text != NULL) {
        return orr_fail(err, ORR_E_NAME, "llm_calls '%s' is not native, required or schema", text);
    }
    return e->calls != ORR_LLM_CALLS_SCHEMA || e->api == ORR_LLM_CHAT
               ? ORR_OK
               : orr_fail(err, ORR_E_USAGE, "calls by schema need the chat interface");
}

/* Replies and failures of a transcript, in order; its first line says which interface spoke. */
static orr_status read_transcript(orr_arena *arena, const char *path, orr_tree **replies,
                                  const orr_tree **meta, orr_err *err) {
    char *text = NULL;
    size_t length = 0;
    ORR_TRY(orr_os_read_file(arena, path, MAX_TRANSCRIPT, &text, &length, err));
    *replies = orr_tree_new_list(arena);
    *meta = NULL;
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        orr_tree *line = NULL;
        if (n > 0) {
            ORR_TRY(orr_json_read(arena, path, p, n, &line, err));
            const char *kind = orr_tree_text(orr_tree_get(line, "kind"), "");
            if (strcmp(kind, "meta") == 0) {
                *meta = line;
            } else if (strcmp(kind, "reply") == 0 || strcmp(kind, "failure") == 0) {
                (void)orr_tree_push(arena, *replies, line);
            }
        }
        p += n + (p[n] == '\n');
    }
    return *meta != NULL
               ? ORR_OK
               : orr_fail(err, ORR_E_SCHEMA, "%s is no transcript: it has no meta line", path);
}

static orr_status open_replay(orr_job *job, const llm_args *args, orr_llm_endpoint *endpoint,
                              orr_tree **replies, orr_err *err) {
    const orr_tree *meta = NULL;
    ORR_TRY(read_transcript(job->arena, args->replay, replies, &meta, err));
    *endpoint = (orr_llm_endpoint){.name = orr_tree_text(orr_tree_get(meta, "provider"), "?"),
                                   .model = orr_tree_text(orr_tree_get(meta, "model"), "?"),
                                   .url = "",
                                   .price_in = -1,
                                   .price_out = -1};
    ORR_TRY(read_calls(orr_tree_text(orr_tree_get(meta, "calls"), NULL), endpoint, err));
    const char *api = orr_tree_text(orr_tree_get(meta, "api"), "");
    for (int i = ORR_LLM_CHAT; i <= ORR_LLM_ANTHROPIC; i++) {
        if (strcmp(api, orr_llm_api_name((orr_llm_api)i)) == 0) {
            endpoint->api = (orr_llm_api)i;
        }
    }
    return ORR_OK;
}

static orr_status open_client(orr_job *job, const llm_args *args, run *r, orr_llm_client *client,
                              orr_err *err) {
    orr_llm_endpoint endpoint;
    orr_http http = {0};
    orr_tree *replies = NULL;
    if (args->replay != NULL) {
        ORR_TRY(open_replay(job, args, &endpoint, &replies, err));
    } else {
        if (args->llm == NULL || args->model == NULL) {
            orr_status status = orr_fail(err, ORR_E_USAGE, "an LLM needs llm and llm_model");
            orr_hint(err, "for example --llm http://localhost:8080/v1 --llm-model NAME");
            return status;
        }
        ORR_TRY(orr_llm_find(job->arena, args->llm, args->api, args->model, args->key_file,
                             &endpoint, err));
        ORR_TRY(orr_http_curl(&http, err));
        endpoint.stream = args->stream;
        ORR_TRY(read_calls(args->calls, &endpoint, err));
        endpoint.temperature = args->temperature;
    }
    if (args->price != NULL) {
        ORR_TRY(read_price(args->price, &endpoint, err));
    } else if (args->prices != NULL) {
        ORR_TRY(orr_llm_find_price(job->arena, args->prices, &endpoint, err));
    }
    if (args->dollars > 0 && endpoint.price_in < 0) {
        return orr_fail(err, ORR_E_USAGE, "a budget in dollars needs llm_price or llm_prices");
    }
    orr_llm_world world = {now_s, unix_s, sleep_s, go_on, record, r};
    orr_llm_client_open(client, &endpoint, &http, &world);
    client->replay = replies;
    client->first_wait_s = args->retry_s;
    client->idle_s = args->idle_s;
    client->limits = (orr_llm_limits){.tokens = (int64_t)orr_min_u64(args->tokens, INT64_MAX),
                                      .dollars = args->dollars,
                                      .wall_s = args->seconds,
                                      .requests = args->requests};
    return ORR_OK;
}

/* ---- command -------------------------------------------------------------------------------- */

static void record_meta(run *r, const orr_llm_client *client) {
    orr_arena *arena = r->job->arena;
    orr_tree *meta = orr_tree_new_map(arena);
    orr_tree_put_text(arena, meta, "kind", "meta");
    orr_tree_put_int(arena, meta, "version", 1);
    orr_tree_put_text(arena, meta, "orrery", orr_version());
    orr_tree_put_text(arena, meta, "provider", client->endpoint.name);
    orr_tree_put_text(arena, meta, "api", orr_llm_api_name(client->endpoint.api));
    orr_tree_put_text(arena, meta, "calls", orr_llm_calls_name(client->endpoint.calls));
    orr_tree_put_text(arena, meta, "model", client->endpoint.model);
    (void)orr_tree_put(arena, meta, "inputs", orr_tree_copy(arena, r->job->inputs));
    record(r, meta);
}

/* A list, or the file that holds one. */
static orr_status read_device(orr_arena *arena, const orr_tree *given, const orr_tree **out,
                              orr_err *err) {
    const char *path = orr_tree_text(given, NULL);
    orr_tree *read = NULL;
    *out = given;
    if (path != NULL) {
        ORR_TRY(orr_doc_read_file(arena, path, &read, err));
        *out = read;
    }
    return ORR_OK;
}

/* Where the model found better than a search that was stopped early, that is the answer. */
static void take_best(orr_job *job, const orr_tree *investigation) {
    const orr_tree *best = orr_tree_get(investigation, "best");
    double search = orr_tree_real(orr_tree_path(job->result, "best.tokens_per_s_per_gpu"), 0);
    double found = orr_tree_real(orr_tree_get(best, "tokens_per_s_per_gpu"), 0);
    bool measured = orr_tree_get(investigation, "planner") != NULL;
    orr_tree *chosen =
        orr_tree_put(job->arena, job->result, "chosen", orr_tree_new_map(job->arena));
    bool other = (found > search * (1 + 1e-6) || measured) && orr_tree_get(best, "keys") != NULL;
    const char *source = orr_tree_text(orr_tree_get(best, "source"), "");
    bool own = strncmp(source, "model", 5) == 0; /* its trial, or its search's */
    orr_tree_put_text(job->arena, chosen, "by",
                      measured ? "measurement"
                      : !other ? "search"
                      : own    ? "model"
                               : source);
    (void)orr_tree_put(job->arena, chosen, "plan",
                       orr_tree_copy(job->arena, other ? orr_tree_get(best, "keys")
                                                       : orr_tree_path(job->result, "best.plan")));
    orr_tree_put_real(job->arena, chosen, "tokens_per_s_per_gpu", other ? found : search);
}

/* What is pinned holds for the baseline, too. */
static const orr_tree *pinned_base(orr_job *job, const orr_tree *keys, const orr_tree *pins) {
    orr_tree *own = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < orr_tree_size(pins); i++) {
        const char *text = orr_tree_text(orr_tree_at(pins, i), "");
        const char *equals = strchr(text, '=');
        if (equals != NULL) {
            orr_tree_put_text(job->arena, own,
                              orr_arena_copy(job->arena, text, (size_t)(equals - text)),
                              equals + 1);
        }
    }
    return orr_belt_merge(job->arena, orr_job_base(job, keys), own);
}

/* A model that gave out leaves the best so far, a warning and the exit code of the network. */
static void note_failure(orr_job *job, const orr_llm_client *client, const orr_tree *report) {
    static const orr_llm_failure failures[] = {ORR_LLM_REFUSED, ORR_LLM_UNUSABLE,
                                               ORR_LLM_UNREACHED};
    const char *stopped = orr_tree_text(orr_tree_get(report, "stopped"), "");
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const char *name = orr_llm_failure_name(failures[i]);
        size_t length = strlen(name);
        if (strncmp(stopped, name, length) == 0 && stopped[length] == ':') {
            orr_job_warn(job, "llm", client->endpoint.url,
                         "the language model gave out (%s): what is shown is the best so far",
                         stopped);
            orr_tree_put_text(job->arena, job->result, "failed", "network");
        }
    }
}

orr_status orr_job_investigate(orr_job *job, const orr_tree *keys, const orr_tree *pins,
                               const orr_tree *ranges, orr_err *err) {
    llm_args args = {.temperature = -1};
    orr_llm_client client;
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    run r = {.job = job,
             .start_s = orr_os_now_s(),
             .transcript = args.transcript,
             .lines = orr_text_new(job->arena, MAX_TRANSCRIPT)};
    ORR_TRY(open_client(job, &args, &r, &client, err));
    orr_oracle oracle = {.call = ask, .progress = tell, .user = job};
    orr_tree *search_args = orr_tree_new_map(job->arena);
    (void)orr_tree_put(job->arena, search_args, "pin", orr_tree_copy(job->arena, pins));
    (void)orr_tree_put(job->arena, search_args, "range", orr_tree_copy(job->arena, ranges));
    orr_agent_task task = {.oracle = &oracle,
                           .base = pinned_base(job, keys, pins),
                           .search = job->result,
                           .search_args = search_args,
                           .guidance = args.guidance,
                           .tools = args.tools,
                           .blind = args.blind,
                           .fairness = args.fairness,
                           .limits = orr_agent_limits_default()};
    ORR_TRY(read_device(job->arena, args.device, &task.measured, err));
    task.limits.rounds = args.rounds;
    task.limits.turns = args.turns;
    task.limits.patience = args.patience;
    task.limits.tool_calls = args.tool_calls;
    task.limits.evaluations = args.evaluations;
    task.limits.device_s = args.device_s;
    task.limits.device_trials = args.device_trials;
    task.limits.expert_calls = args.experts;
    task.limits.context_tok = args.context;
    task.limits.max_out_tok = args.out;
    record_meta(&r, &client);
    orr_tree *investigation = orr_tree_new_map(job->arena);
    ORR_TRY(orr_agent_investigate(&task, &client, job->arena, investigation, err));
    (void)orr_tree_put(job->arena, job->result, "investigation", investigation);
    take_best(job, investigation);
    note_failure(job, &client, investigation);
    if (args.svg != NULL) {
        const char *text = orr_report_best_so_far(job->arena, job->result);
        ORR_TRY(orr_os_write_file(args.svg, text, strlen(text), err));
    }
    if (r.written != ORR_OK) {
        orr_job_warn(job, "transcript", args.transcript, "not all could be recorded: %s",
                     r.problem.message);
    }
    return ORR_OK;
}

bool orr_job_wants_llm(const orr_job *job) {
    return orr_tree_get(job->args, "llm") != NULL || orr_tree_get(job->args, "replay") != NULL;
}

orr_status orr_command_llm_doctor(orr_job *job, orr_err *err) {
    llm_args args = {.temperature = -1};
    orr_llm_client client;
    run r = {.job = job, .lines = orr_text_new(job->arena, 0)};
    ORR_TRY(orr_schema_read(&doctor_schema, job->arena, job->args, &args, NULL, err));
    ORR_TRY(open_client(job, &args, &r, &client, err));
    client.max_retries = 0;
    orr_tree_put_text(job->arena, job->inputs, "provider", client.endpoint.name);
    orr_tree_put_text(job->arena, job->inputs, "api", orr_llm_api_name(client.endpoint.api));
    orr_tree_put_text(job->arena, job->inputs, "url", client.endpoint.url);
    orr_tree_put_text(job->arena, job->inputs, "model", client.endpoint.model);
    job->result = orr_agent_doctor(&client, job->arena);
    return ORR_OK;
}
