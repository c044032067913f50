/* Back ends: finding them, and the two that need no device. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/os_run.h"
#include "engine/engine.h"

/* What is wrong with a table of functions; NULL: nothing. */
static const char *fault_of(const orr_backend *backend) {
    if (backend == NULL) {
        return "gives no table of functions";
    }
    if (backend->abi != ORR_BACKEND_ABI) {
        return "is of another version of the interface";
    }
    bool whole = backend->name != NULL && backend->open != NULL && backend->identify != NULL &&
                 backend->prepare != NULL && backend->run != NULL && backend->drop != NULL &&
                 backend->meet != NULL && backend->close != NULL;
    bool checks = !(backend->capabilities & ORR_BACKEND_HAS_CHECK) || backend->check != NULL;
    return whole && checks ? NULL : "lacks a function that it must have";
}

orr_status orr_backend_find(orr_arena *arena, const char *name, const orr_backend **out,
                            orr_err *err) {
    static const orr_backend *const built_in[] = {&orr_backend_null, &orr_backend_replay};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        if (strcmp(name, built_in[i]->name) == 0) {
            *out = built_in[i];
            return ORR_OK;
        }
    }
    const char *module = strchr(name, '/') != NULL || strstr(name, ".so") != NULL
                             ? name
                             : orr_arena_format(arena, "orrery-%s.so", name);
    void *symbol = NULL;
    orr_status status = orr_os_module(arena, module, ORR_BACKEND_ENTRY, &symbol, err);
    if (status != ORR_OK) {
        orr_hint(err, "back ends: null, replay, and modules that were built (docs/evidence.md)");
        return status;
    }
    orr_backend_entry_fn entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: a symbol may be a function */
    const orr_backend *backend = entry();
    const char *fault = fault_of(backend);
    if (fault != NULL) {
        return orr_fail(err, ORR_E_CONFLICT, "the back end %s %s (%u, expected %u)", module, fault,
                        backend == NULL ? 0 : backend->abi, ORR_BACKEND_ABI);
    }
    *out = backend;
    return ORR_OK;
}

/* ---- null: the harness's own cost ----------------------------------------------------------- */

static int null_open(const char *options, void **self, orr_backend_message *message) {
    (void)options;
    (void)message;
    *self = NULL;
    return ORR_BACKEND_OK;
}

static int null_identify(void *self, orr_backend_identity *out, orr_backend_message *message) {
    (void)self;
    (void)message;
    *out = (orr_backend_identity){.device = "nothing", .software = "null", .ranks = 1};
    return ORR_BACKEND_OK;
}

static int null_prepare(void *self, const orr_backend_op *op, void **job,
                        orr_backend_message *message) {
    (void)self;
    (void)op;
    (void)message;
    *job = NULL;
    return ORR_BACKEND_OK;
}

static int null_run(void *self, void *job, double *seconds, orr_backend_message *message) {
    (void)self;
    (void)job;
    (void)seconds;
    (void)message;
    return ORR_BACKEND_OK;
}

static void null_drop(void *self, void *job) {
    (void)self;
    (void)job;
}

static int null_meet(void *self, orr_backend_message *message) {
    (void)self;
    (void)message;
    return ORR_BACKEND_OK;
}

static void null_close(void *self) {
    (void)self;
}

const orr_backend orr_backend_null = {.abi = ORR_BACKEND_ABI,
                                      .name = "null",
                                      .open = null_open,
                                      .identify = null_identify,
                                      .prepare = null_prepare,
                                      .run = null_run,
                                      .drop = null_drop,
                                      .meet = null_meet,
                                      .close = null_close};

/* ---- replay: a recorded device -------------------------------------------------------------- */

typedef struct replay {
    orr_arena *arena;
    orr_evidence *set;
} replay;

static int replay_open(const char *options, void **self, orr_backend_message *message) {
    orr_err err = {0};
    if (options == NULL) {
        (void)snprintf(message->text, sizeof message->text, "replay needs a file of evidence");
        return ORR_BACKEND_NO_DEVICE;
    }
    replay *own = (replay *)orr_alloc(sizeof *own);
    own->arena = orr_arena_new();
    const orr_evidence_want want = {.classes = ORR_CLASS_BIT_ALL};
    if (orr_evidence_read(own->arena, options, &want, &own->set, &err) != ORR_OK) {
        (void)snprintf(message->text, sizeof message->text, "%.250s", err.message);
        orr_arena_free(own->arena);
        orr_release(own);
        return ORR_BACKEND_NO_DEVICE;
    }
    *self = own;
    return ORR_BACKEND_OK;
}

static int replay_identify(void *self, orr_backend_identity *out, orr_backend_message *message) {
    const replay *own = (const replay *)self;
    (void)message;
    *out = (orr_backend_identity){.ranks = 1};
    (void)snprintf(out->device, sizeof out->device, "%s", own->set->device);
    (void)snprintf(out->software, sizeof out->software, "%s", own->set->file[0].software);
    return ORR_BACKEND_OK;
}

static int replay_prepare(void *self, const orr_backend_op *op, void **job,
                          orr_backend_message *message) {
    const replay *own = (const replay *)self;
    orr_evidence_key key;
    memset(&key, 0, sizeof key);
    bool product = op->kind <= ORR_BACKEND_ATTENTION;
    key.kind = op->kind;
    key.phase = product ? op->phase : 0;
    key.dtype = product ? op->dtype : 0;
    key.sub = product ? 0 : op->sub;
    key.causal = op->kind == ORR_BACKEND_ATTENTION ? op->causal : 0;
    key.out_bytes = op->kind <= ORR_BACKEND_GROUPED_GEMM ? op->out_bytes : 0;
    memcpy(key.dim, op->dim, sizeof op->dim);
    if (op->kind == ORR_BACKEND_COLLECTIVE) {
        key.dim[3] = 0; /* where the group lies */
    }
    const orr_evidence_record *record =
        op->kind > ORR_BACKEND_COLLECTIVE ? NULL : orr_evidence_find(own->set, &key);
    if (record == NULL) {
        (void)snprintf(message->text, sizeof message->text, "was not recorded");
        return ORR_BACKEND_UNSUPPORTED;
    }
    double *time_s = (double *)orr_alloc(sizeof *time_s);
    *time_s = record->time_s;
    *job = time_s;
    return ORR_BACKEND_OK;
}

static int replay_run(void *self, void *job, double *seconds, orr_backend_message *message) {
    (void)self;
    (void)message;
    *seconds = *(const double *)job;
    return ORR_BACKEND_OK;
}

static void replay_drop(void *self, void *job) {
    (void)self;
    orr_release(job);
}

static void replay_close(void *self) {
    replay *own = (replay *)self;
    orr_arena_free(own->arena);
    orr_release(own);
}

const orr_backend orr_backend_replay = {.abi = ORR_BACKEND_ABI,
                                        .capabilities = ORR_BACKEND_HAS_CLOCK,
                                        .name = "replay",
                                        .open = replay_open,
                                        .identify = replay_identify,
                                        .prepare = replay_prepare,
                                        .run = replay_run,
                                        .drop = replay_drop,
                                        .meet = null_meet,
                                        .close = replay_close};
