/* One HTTP request at a time, over libcurl where the host has it, or over anything a test puts in
 * its place. Redirects are not followed: a key goes where it was meant to. */
#ifndef ORR_LLM_HTTP_H
#define ORR_LLM_HTTP_H

#include "base/arena.h"
#include "base/text.h"
#include "orrery/orrery.h"

enum { ORR_HTTP_MAX_BODY = 32 << 20, ORR_HTTP_MAX_HEADERS = 16 };

typedef enum orr_http_outcome {
    ORR_HTTP_DONE = 0,
    ORR_HTTP_NO_CONNECTION, /* name, connection, TLS, or broken off */
    ORR_HTTP_TIMEOUT,       /* of the whole request */
    ORR_HTTP_STALLED,       /* nothing came for idle_s */
    ORR_HTTP_TOO_LARGE,
    ORR_HTTP_STOPPED /* by the caller */
} orr_http_outcome;

typedef struct orr_http_request {
    const char *url;
    const char *header[ORR_HTTP_MAX_HEADERS]; /* "Name: value"; NULL ends */
    const char *body;                         /* NULL: GET */
    size_t body_bytes;
    double connect_s, total_s, idle_s;
    /* Bytes of a successful event stream as they come; false stops. Other bodies are kept. */
    bool (*on_event_bytes)(void *user, const char *bytes, size_t length);
    bool (*go_on)(void *user); /* asked now and then; may be NULL */
    void *user;
} orr_http_request;

typedef struct orr_http_response {
    orr_http_outcome outcome;
    int status;        /* 0 without an answer */
    orr_tree *headers; /* names in lower case; the last of equal names */
    bool events;       /* the body was an event stream and went to on_event_bytes */
    const char *body;  /* terminated; NULL when events */
    size_t body_bytes;
    const char *problem; /* of the transport, without secrets; may be NULL */
} orr_http_response;

typedef struct orr_http {
    /* ORR_E_IO only when no request can be made at all. */
    orr_status (*send)(void *self, const orr_http_request *request, orr_arena *arena,
                       orr_http_response *out, orr_err *err);
    void *self;
} orr_http;

/* Over libcurl. ORR_E_IO with a hint when the host has none. */
orr_status orr_http_curl(orr_http *out, orr_err *err);

#endif
