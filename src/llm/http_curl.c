/* HTTP over libcurl, found when the first request is made. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/os_host.h"
#include "llm/curl_names.h"
#include "llm/http.h"

typedef int (*setopt_fn)(void *handle, int option, ...);
typedef int (*getinfo_fn)(void *handle, int info, ...);
typedef struct curl_api {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    setopt_fn setopt;
    int (*perform)(void *handle);
    getinfo_fn getinfo;
    void (*cleanup)(void *handle);
    void *(*append)(void *list, const char *text);
    void (*free_all)(void *list);
    const char *(*describe)(int code);
} curl_api;

/* A symbol into a member of its own type. */
#define LOAD(api, library, member, name)                                                           \
    do {                                                                                           \
        orr_os_function found_ = orr_os_symbol(library, name);                                     \
        if (found_ == NULL) {                                                                      \
            return false;                                                                          \
        }                                                                                          \
        memcpy(&(api)->member, &found_, sizeof found_);                                            \
    } while (0)

static bool load_all(curl_api *api, void *library) {
    LOAD(api, library, global_init, "curl_global_init");
    LOAD(api, library, easy_init, "curl_easy_init");
    LOAD(api, library, setopt, "curl_easy_setopt");
    LOAD(api, library, perform, "curl_easy_perform");
    LOAD(api, library, getinfo, "curl_easy_getinfo");
    LOAD(api, library, cleanup, "curl_easy_cleanup");
    LOAD(api, library, append, "curl_slist_append");
    LOAD(api, library, free_all, "curl_slist_free_all");
    LOAD(api, library, describe, "curl_easy_strerror");
    return true;
}

static bool load(curl_api *api) {
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = orr_os_library(names[i]);
        if (library != NULL && load_all(api, library)) {
            return true;
        }
    }
    return false;
}

/* One request on its way. */
typedef struct transfer {
    const orr_http_request *request;
    orr_http_response *out;
    orr_arena *arena;
    orr_text body;
    bool stopped, too_large;
    double last_s; /* when something last came */
    bool stalled;
} transfer;

/* ---- headers -------------------------------------------------------------------------------- */

static size_t on_header(char *bytes, size_t size, size_t count, void *user) {
    transfer *t = (transfer *)user;
    size_t length = size * count;
    const char *colon = memchr(bytes, ':', length);
    if (length > 5 && memcmp(bytes, "HTTP/", 5) == 0) { /* an interim answer's are gone */
        t->out->headers = orr_tree_new_map(t->arena);
    } else if (colon != NULL && orr_tree_size(t->out->headers) < 128) {
        char *name = orr_arena_copy(t->arena, bytes, (size_t)(colon - bytes));
        for (char *p = name; *p != '\0'; p++) {
            *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        }
        const char *value = colon + 1, *end = bytes + length;
        while (value < end && (*value == ' ' || *value == '\t')) {
            value++;
        }
        while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) {
            end--;
        }
        (void)orr_tree_put(t->arena, t->out->headers, name,
                           orr_tree_new_textn(t->arena, value, (size_t)(end - value)));
    }
    const char *type = orr_tree_text(orr_tree_get(t->out->headers, "content-type"), "");
    t->out->events = strncmp(type, "text/event-stream", 17) == 0;
    return length;
}

/* ---- body ----------------------------------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *user) {
    transfer *t = (transfer *)user;
    size_t length = size * count;
    t->last_s = orr_os_now_s();
    if (t->out->events && t->request->on_event_bytes != NULL) {
        if (!t->request->on_event_bytes(t->request->user, bytes, length)) {
            t->stopped = true;
            return 0;
        }
        return length;
    }
    orr_text_addn(&t->body, bytes, length);
    t->too_large = t->body.truncated;
    return t->too_large ? 0 : length;
}

/* Called about once a second and whenever something moves. */
static int on_tick(void *user, int64_t total_in, int64_t in, int64_t total_out, int64_t sent) {
    transfer *t = (transfer *)user;
    (void)total_in;
    (void)in;
    (void)total_out;
    (void)sent;
    if (t->request->go_on != NULL && !t->request->go_on(t->request->user)) {
        t->stopped = true;
    }
    t->stalled =
        t->request->idle_s > 0 && orr_os_now_s() - t->last_s > t->request->idle_s && !t->stopped;
    return t->stopped || t->stalled ? 1 : 0;
}

/* ---- request -------------------------------------------------------------------------------- */

static long milliseconds(double s) {
    return s > 0 && s < 1e6 ? (long)(s * 1e3) : 0;
}

static void *set_options(const curl_api *api, void *handle, transfer *t, char *problem) {
    const orr_http_request *request = t->request;
    void *list = NULL;
    for (size_t i = 0; i < ORR_HTTP_MAX_HEADERS && request->header[i] != NULL; i++) {
        void *longer = api->append(list, request->header[i]);
        list = longer != NULL ? longer : list;
    }
    (void)api->setopt(handle, ORR_CURL_URL, request->url);
    (void)api->setopt(handle, ORR_CURL_PROTOCOLS,
                      (long)(ORR_CURL_PROTO_HTTP | ORR_CURL_PROTO_HTTPS));
    (void)api->setopt(handle, ORR_CURL_NOSIGNAL, 1L);
    (void)api->setopt(handle, ORR_CURL_ERRORBUFFER, problem);
    (void)api->setopt(handle, ORR_CURL_HTTPHEADER, list);
    if (request->body != NULL) {
        (void)api->setopt(handle, ORR_CURL_POSTFIELDSIZE, (long)request->body_bytes);
        (void)api->setopt(handle, ORR_CURL_POSTFIELDS, request->body);
    }
    (void)api->setopt(handle, ORR_CURL_CONNECTTIMEOUT_MS, milliseconds(request->connect_s));
    (void)api->setopt(handle, ORR_CURL_TIMEOUT_MS, milliseconds(request->total_s));
    (void)api->setopt(handle, ORR_CURL_HEADERFUNCTION, on_header);
    (void)api->setopt(handle, ORR_CURL_HEADERDATA, t);
    (void)api->setopt(handle, ORR_CURL_WRITEFUNCTION, on_body);
    (void)api->setopt(handle, ORR_CURL_WRITEDATA, t);
    (void)api->setopt(handle, ORR_CURL_NOPROGRESS, 0L);
    (void)api->setopt(handle, ORR_CURL_XFERINFOFUNCTION, on_tick);
    (void)api->setopt(handle, ORR_CURL_XFERINFODATA, t);
    return list;
}

static orr_http_outcome outcome_of(const transfer *t, int code) {
    return t->stopped                  ? ORR_HTTP_STOPPED
           : t->stalled                ? ORR_HTTP_STALLED
           : t->too_large              ? ORR_HTTP_TOO_LARGE
           : code == ORR_CURL_OK       ? ORR_HTTP_DONE
           : code == ORR_CURL_TIMEDOUT ? ORR_HTTP_TIMEOUT
                                       : ORR_HTTP_NO_CONNECTION;
}

static orr_status send(void *self, const orr_http_request *request, orr_arena *arena,
                       orr_http_response *out, orr_err *err) {
    curl_api api;
    char problem[ORR_CURL_ERROR_BYTES] = "";
    (void)self;
    memset(&api, 0, sizeof api);
    memset(out, 0, sizeof *out);
    if (!load(&api) || api.global_init(ORR_CURL_GLOBAL_ALL) != ORR_CURL_OK) {
        orr_status status = orr_fail(err, ORR_E_IO, "libcurl cannot be loaded");
        orr_hint(err, "install libcurl4 (Debian) or libcurl (elsewhere)");
        return status;
    }
    void *handle = api.easy_init();
    if (handle == NULL) {
        return orr_fail(err, ORR_E_IO, "libcurl gives no handle");
    }
    transfer t = {.request = request,
                  .out = out,
                  .arena = arena,
                  .body = orr_text_new(arena, ORR_HTTP_MAX_BODY),
                  .last_s = orr_os_now_s()};
    out->headers = orr_tree_new_map(arena);
    void *list = set_options(&api, handle, &t, problem);
    int code = api.perform(handle);
    long status = 0;
    (void)api.getinfo(handle, ORR_CURL_INFO_RESPONSE_CODE, &status);
    api.cleanup(handle);
    api.free_all(list);
    out->outcome = outcome_of(&t, code);
    out->status = (int)status;
    out->events = out->events && request->on_event_bytes != NULL;
    out->body = out->events ? NULL : orr_text_done(&t.body);
    out->body_bytes = out->events ? 0 : t.body.length;
    out->problem = code == ORR_CURL_OK  ? NULL
                   : problem[0] != '\0' ? orr_arena_text(arena, problem)
                                        : orr_arena_text(arena, api.describe(code));
    return ORR_OK;
}

orr_status orr_http_curl(orr_http *out, orr_err *err) {
    curl_api api;
    memset(&api, 0, sizeof api);
    *out = (orr_http){.send = send};
    if (!load(&api)) {
        orr_status status = orr_fail(err, ORR_E_IO, "libcurl cannot be loaded");
        orr_hint(err, "install libcurl4 (Debian) or libcurl (elsewhere)");
        return status;
    }
    return ORR_OK;
}
