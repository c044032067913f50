/* One turn: budget, request, retries, stream, record. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "llm/llm_int.h"
#include "llm/sse.h"

static const double longest_wait_s = 8;

const char *orr_llm_failure_name(orr_llm_failure failure) {
    static const char *const names[] = {"fine",     "budget",    "refused",
                                        "unusable", "unreached", "cancelled"};
    return names[failure];
}

void orr_llm_client_open(orr_llm_client *client, const orr_llm_endpoint *endpoint,
                         const orr_http *http, const orr_llm_world *world) {
    *client = (orr_llm_client){.endpoint = *endpoint,
                               .http = *http,
                               .world = *world,
                               .rng = {1},
                               .max_retries = 2,
                               .connect_s = 5,
                               .total_s = 600,
                               .idle_s = 120,
                               .first_wait_s = 0.5};
    client->start_s = world->now_s(world->user);
    client->spent.dollars_known = endpoint->price_in >= 0 && endpoint->price_out >= 0;
}

/* text without the key. */
static const char *redact(orr_arena *arena, const char *text, const char *key) {
    if (key == NULL || key[0] == '\0' || strstr(text, key) == NULL) {
        return text;
    }
    orr_text out = orr_text_new(arena, SIZE_MAX / 2);
    for (const char *at; (at = strstr(text, key)) != NULL; text = at + strlen(key)) {
        orr_text_addn(&out, text, (size_t)(at - text));
        orr_text_add(&out, "[key]");
    }
    orr_text_add(&out, text);
    return orr_text_done(&out);
}

static void say(orr_llm_client *client, orr_arena *arena, const char *text) {
    (void)snprintf(client->why, sizeof client->why, "%s",
                   redact(arena, text, client->endpoint.key));
    for (char *p = client->why; *p != '\0'; p++) {
        *p = (unsigned char)*p < ' ' ? ' ' : *p;
    }
}

/* ---- budget --------------------------------------------------------------------------------- */

/* Which limit is reached; NULL when none is. */
static const char *limit_reached(const orr_llm_client *client) {
    const orr_llm_limits *limits = &client->limits;
    const orr_llm_spent *spent = &client->spent;
    int64_t tokens = spent->usage.in + spent->usage.out;
    double wall_s = client->world.now_s(client->world.user) - client->start_s;
    bool blind = spent->uncounted > 0 && (limits->tokens > 0 || limits->dollars > 0);
    return blind ? "tokens, which this server does not count"
           : limits->requests > 0 && spent->requests >= limits->requests ? "requests"
           : limits->tokens > 0 && tokens >= limits->tokens              ? "tokens"
           : limits->dollars > 0 && spent->dollars >= limits->dollars    ? "dollars"
           : limits->wall_s > 0 && wall_s >= limits->wall_s              ? "wall time"
                                                                         : NULL;
}

static void charge(orr_llm_client *client, const orr_llm_reply *reply) {
    orr_llm_spent *spent = &client->spent;
    const orr_llm_endpoint *e = &client->endpoint;
    spent->usage.in += reply->usage.in;
    spent->usage.cached_in += reply->usage.cached_in;
    spent->usage.out += reply->usage.out;
    spent->usage.reasoning += reply->usage.reasoning;
    spent->usage.known = reply->usage.known;
    spent->uncounted += reply->usage.known ? 0 : 1;
    spent->dollars_known = spent->dollars_known && reply->usage.known;
    if (e->price_in >= 0 && e->price_out >= 0) {
        double cached = e->price_cached >= 0 ? e->price_cached : e->price_in;
        spent->dollars +=
            ((double)(reply->usage.in - reply->usage.cached_in) * e->price_in +
             (double)reply->usage.cached_in * cached + (double)reply->usage.out * e->price_out) /
            1e6;
    }
}

/* ---- one attempt ---------------------------------------------------------------------------- */

typedef struct attempt {
    orr_llm_client *client;
    orr_arena *arena;
    orr_http_response response;
    orr_sse sse;
    orr_llm_fold *fold;
    const orr_tree *error; /* {type, code, message} */
} attempt;

static bool on_event(void *user, const char *name, const char *data, size_t length) {
    attempt *a = (attempt *)user;
    return orr_llm_fold_event(a->fold, name, data, length) && !orr_llm_fold_done(a->fold);
}

static bool on_bytes(void *user, const char *bytes, size_t length) {
    return orr_sse_push(&((attempt *)user)->sse, bytes, length);
}

static bool go_on(void *user) {
    const orr_llm_client *client = ((attempt *)user)->client;
    const orr_llm_world *world = &client->world;
    bool late = client->limits.wall_s > 0 &&
                world->now_s(world->user) - client->start_s >= client->limits.wall_s;
    return !late && (world->go_on == NULL || world->go_on(world->user));
}

static void fill_headers(const orr_llm_client *client, orr_arena *arena, orr_http_request *out) {
    const orr_llm_endpoint *e = &client->endpoint;
    size_t n = 0;
    out->header[n++] = "Content-Type: application/json";
    out->header[n++] = e->stream ? "Accept: text/event-stream" : "Accept: application/json";
    out->header[n++] = "Expect:";
    out->header[n++] = orr_arena_format(arena, "User-Agent: orrery/%s", orr_version());
    if (e->api == ORR_LLM_ANTHROPIC) {
        out->header[n++] = "anthropic-version: 2023-06-01";
        if (e->key != NULL) {
            out->header[n++] = orr_arena_format(arena, "x-api-key: %s", e->key);
        }
    } else if (e->key != NULL) {
        out->header[n++] = orr_arena_format(arena, "Authorization: Bearer %s", e->key);
    }
}

static orr_status post(attempt *a, const char *body, orr_err *err) {
    orr_llm_client *client = a->client;
    orr_http_request request = {.url = orr_arena_format(a->arena, "%s%s", client->endpoint.url,
                                                        orr_llm_path(client->endpoint.api)),
                                .body = body,
                                .body_bytes = strlen(body),
                                .connect_s = client->connect_s,
                                .total_s = client->total_s,
                                .idle_s = client->idle_s,
                                .on_event_bytes = on_bytes,
                                .go_on = go_on,
                                .user = a};
    fill_headers(client, a->arena, &request);
    a->fold = orr_llm_fold_new(a->arena, client->endpoint.api);
    orr_sse_open(&a->sse, on_event, a);
    orr_status status = client->http.send(client->http.self, &request, a->arena, &a->response, err);
    orr_sse_close(&a->sse);
    return status;
}

/* What the answer is: a body to read, or an error to judge. */
static const orr_tree *body_of(attempt *a) {
    const orr_http_response *r = &a->response;
    orr_tree *tree = NULL;
    orr_err problem = {0};
    if (r->events) {
        a->error = orr_llm_fold_error(a->fold);
        bool ended = orr_llm_fold_done(a->fold);
        /* Some servers close without their last event, but not before saying why they stop. */
        bool stopped = a->client->endpoint.api == ORR_LLM_CHAT && a->fold->stop != NULL &&
                       r->outcome == ORR_HTTP_DONE;
        return a->error == NULL && (ended || stopped) ? orr_llm_fold_body(a->fold) : NULL;
    }
    if (r->body == NULL ||
        orr_json_read(a->arena, NULL, r->body, r->body_bytes, &tree, &problem) != ORR_OK) {
        return NULL;
    }
    if (r->status < 200 || r->status > 299) {
        a->error = llm_error(a->arena, tree);
        return NULL;
    }
    return tree;
}

/* ---- judging -------------------------------------------------------------------------------- */

typedef enum verdict { GOOD, RETRY, REFUSED, UNUSABLE } verdict;

static bool is_spent(const orr_tree *error) {
    static const char *const codes[] = {"insufficient_quota",
                                        "credit_balance_exhausted",
                                        "billing_error",
                                        "organization_spend_limit_exceeded",
                                        "project_spend_limit_exceeded",
                                        "organization_usage_limit_exceeded"};
    const char *code = orr_tree_text(orr_tree_get(error, "code"), "");
    const char *type = orr_tree_text(orr_tree_get(error, "type"), "");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0 || strcmp(type, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Errors inside a stream name what would have been a status. */
static bool is_passing(const orr_tree *error) {
    static const char *const words[] = {"overload", "rate_limit", "server_error", "api_error",
                                        "timeout",  "malformed",  "unavailable"};
    const char *code = orr_tree_text(orr_tree_get(error, "code"), "");
    const char *type = orr_tree_text(orr_tree_get(error, "type"), "");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(code, words[i]) != NULL || strstr(type, words[i]) != NULL) {
            return true;
        }
    }
    return orr_tree_int(orr_tree_get(error, "code"), 0) >= 500;
}

static verdict judge(const attempt *a, const orr_tree *body) {
    const orr_http_response *r = &a->response;
    const char *told = orr_tree_text(orr_tree_get(r->headers, "x-should-retry"), "");
    if (body != NULL) {
        return GOOD;
    }
    if (is_spent(a->error)) {
        return REFUSED;
    }
    if (strcmp(told, "true") == 0 || strcmp(told, "false") == 0) {
        return told[0] == 't' ? RETRY : REFUSED;
    }
    if (r->outcome == ORR_HTTP_TOO_LARGE) {
        return UNUSABLE;
    }
    if (r->status == 408 || r->status == 409 || r->status == 429 || r->status >= 500 ||
        r->status == 0) {
        return RETRY;
    }
    if (r->status >= 200 && r->status <= 299) { /* broken off, stalled, malformed, or an error */
        return a->error == NULL || is_passing(a->error) ? RETRY : REFUSED;
    }
    return REFUSED;
}

static const char *describe(const attempt *a) {
    const orr_http_response *r = &a->response;
    static const char *const outcomes[] = {"",
                                           "no connection",
                                           "timed out",
                                           "went silent in mid-answer",
                                           "answered more than can be read",
                                           "stopped"};
    const char *message = orr_tree_text(orr_tree_get(a->error, "message"), NULL);
    const char *type = orr_tree_text(orr_tree_get(a->error, "type"), "error");
    if (message != NULL) {
        return r->status >= 300
                   ? orr_arena_format(a->arena, "HTTP %d, %s: %s", r->status, type, message)
                   : orr_arena_format(a->arena, "%s: %s", type, message);
    }
    if (r->outcome != ORR_HTTP_DONE && !(r->events && r->outcome == ORR_HTTP_STOPPED)) {
        return orr_arena_format(a->arena, "%s%s%s", outcomes[r->outcome],
                                r->problem == NULL ? "" : ": ",
                                r->problem == NULL ? "" : r->problem);
    }
    return r->events ? "the stream broke off"
                     : orr_arena_format(a->arena, "HTTP %d with a body that is no JSON", r->status);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void wait_s(orr_llm_client *client, double s) {
    client->world.sleep_s(client->world.user, s);
    client->spent.waited_s += s;
}

static void wait_to_retry(orr_llm_client *client, const attempt *a, uint32_t n) {
    double most_s = client->endpoint.api == ORR_LLM_ANTHROPIC ? 60 : 120;
    double s = orr_llm_retry_after_s(a->response.headers, client->world.unix_s(client->world.user),
                                     most_s);
    if (s < 0) {
        s = client->first_wait_s;
        for (uint32_t i = 0; i < n && s < longest_wait_s; i++) {
            s *= 2;
        }
        s = (s < longest_wait_s ? s : longest_wait_s) * (1 - 0.25 * orr_rng_unit(&client->rng));
    }
    wait_s(client, s);
}

static void keep_pace(orr_llm_client *client) {
    double s = client->free_at_s - client->world.now_s(client->world.user);
    if (s > 0) {
        wait_s(client, s);
    }
}

/* ---- record and replay ---------------------------------------------------------------------- */

static void record_reply(orr_llm_client *client, orr_arena *arena, const orr_llm_request *request,
                         const orr_tree *body) {
    if (client->world.record == NULL) {
        return;
    }
    orr_tree *entry = orr_tree_new_map(arena);
    orr_tree_put_text(arena, entry, "kind", "reply");
    orr_tree_put_bool(arena, entry, "with_tools", request->tool_count > 0); /* experts have none */
    (void)orr_tree_put(arena, entry, "body", orr_tree_copy(arena, body));
    client->world.record(client->world.user, entry);
}

static void record_failure(orr_llm_client *client, orr_arena *arena, orr_llm_failure failure) {
    if (client->world.record == NULL) {
        return;
    }
    orr_tree *entry = orr_tree_new_map(arena);
    orr_tree_put_text(arena, entry, "kind", "failure");
    orr_tree_put_text(arena, entry, "failure", orr_llm_failure_name(failure));
    orr_tree_put_text(arena, entry, "why", client->why);
    client->world.record(client->world.user, entry);
}

static orr_llm_failure take_recorded(orr_llm_client *client, orr_arena *arena, orr_llm_reply *out) {
    const orr_tree *entry = orr_tree_at(client->replay, client->replayed);
    orr_err problem = {0};
    if (entry == NULL) {
        say(client, arena, "the record has no further reply");
        return ORR_LLM_UNUSABLE;
    }
    client->replayed++;
    const char *failure = orr_tree_text(orr_tree_get(entry, "failure"), NULL);
    if (failure != NULL) {
        say(client, arena, orr_tree_text(orr_tree_get(entry, "why"), ""));
        for (int i = ORR_LLM_BUDGET; i <= ORR_LLM_CANCELLED; i++) {
            if (strcmp(failure, orr_llm_failure_name((orr_llm_failure)i)) == 0) {
                return (orr_llm_failure)i;
            }
        }
        return ORR_LLM_UNUSABLE;
    }
    if (orr_llm_read(arena, client->endpoint.api, orr_tree_get(entry, "body"), out, &problem) !=
        ORR_OK) {
        say(client, arena, problem.message);
        return ORR_LLM_UNUSABLE;
    }
    return ORR_LLM_FINE;
}

/* ---- turn ----------------------------------------------------------------------------------- */

static orr_llm_failure failure_of(verdict v, const attempt *a) {
    return v == REFUSED ? ORR_LLM_REFUSED
           : v == UNUSABLE || (a->response.status >= 200 && a->response.status < 300)
               ? ORR_LLM_UNUSABLE
               : ORR_LLM_UNREACHED;
}

/* True when the turn is over, well or not. */
static bool try_once(orr_llm_client *client, orr_arena *arena, const char *body, uint32_t n,
                     orr_llm_reply *out, orr_llm_failure *failure) {
    attempt a = {.client = client, .arena = arena};
    orr_err problem = {0};
    if (post(&a, body, &problem) != ORR_OK) {
        say(client, arena, problem.message);
        *failure = ORR_LLM_UNREACHED;
        return true;
    }
    const orr_tree *answer = body_of(&a);
    if (answer == NULL && !go_on(&a)) {
        const char *limit = limit_reached(client);
        say(client, arena, limit != NULL ? limit : "cancelled");
        *failure = limit != NULL ? ORR_LLM_BUDGET : ORR_LLM_CANCELLED;
        return true;
    }
    verdict v = judge(&a, answer);
    if (v == GOOD && orr_llm_read(arena, client->endpoint.api, answer, out, &problem) != ORR_OK) {
        v = RETRY; /* JSON, but no answer */
        say(client, arena, problem.message);
    } else if (v != GOOD) {
        say(client, arena, describe(&a));
    }
    if (v == GOOD) {
        const char *id = orr_tree_text(orr_tree_get(a.response.headers, "x-request-id"), NULL);
        out->request_id =
            id != NULL ? id : orr_tree_text(orr_tree_get(a.response.headers, "request-id"), "");
        client->free_at_s =
            client->world.now_s(client->world.user) +
            orr_llm_pace_s(a.response.headers, client->world.unix_s(client->world.user));
        *failure = ORR_LLM_FINE;
        return true;
    }
    *failure = failure_of(v, &a);
    if (v != RETRY || n == client->max_retries) {
        return true;
    }
    client->spent.retries++;
    wait_to_retry(client, &a, n);
    return false;
}

orr_llm_failure orr_llm_send(orr_llm_client *client, orr_arena *arena,
                             const orr_llm_request *request, orr_llm_reply *out) {
    *out = (orr_llm_reply){.text = ""};
    client->why[0] = '\0';
    const char *limit = limit_reached(client);
    if (limit != NULL) {
        say(client, arena, limit);
        return ORR_LLM_BUDGET;
    }
    client->spent.requests++;
    orr_llm_failure failure = ORR_LLM_UNREACHED;
    if (client->replay != NULL) {
        failure = take_recorded(client, arena, out);
    } else {
        const char *body =
            orr_write_json(arena, orr_llm_body(arena, &client->endpoint, request), false);
        keep_pace(client);
        for (uint32_t n = 0; !try_once(client, arena, body, n, out, &failure); n++) {
        }
    }
    if (failure == ORR_LLM_FINE) {
        if (client->endpoint.calls == ORR_LLM_CALLS_SCHEMA && request->tool_count > 0) {
            llm_schema_read(arena, out);
        }
        charge(client, out);
        record_reply(client, arena, request, out->body);
    } else {
        record_failure(client, arena, failure);
    }
    return failure;
}
