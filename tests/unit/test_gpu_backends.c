/* The cuda and hip back ends against shims of the vendors' libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>

#include "doc/doc.h"
#include "engine/engine.h"

typedef struct vendor {
    const char *module, *shim, *hole;
} vendor;
static const vendor vendors[] = {{ORR_CUDA_MODULE, ORR_CUDA_SHIM, ORR_CUDA_SHIM_HOLE},
                                 {ORR_HIP_MODULE, ORR_HIP_SHIM, ORR_HIP_SHIM_HOLE}};

static const orr_backend *find(orr_arena *arena, const vendor *v) {
    const orr_backend *backend = NULL;
    orr_err err = {0};
    if (orr_backend_find(arena, v->module, &backend, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return backend;
}

static int live_of(const char *shim) {
    void *module = dlopen(shim, RTLD_NOW | RTLD_LOCAL), *symbol = dlsym(module, "shim_live");
    int (*count)(void) = NULL;
    assert_non_null(symbol);
    memcpy(&count, &symbol, sizeof count);
    return count(); /* the module stays loaded: its counters outlive the back end */
}

static orr_backend_op product(uint8_t phase, uint8_t out_bytes, uint64_t batch) {
    orr_backend_op op = {.kind = batch > 1 ? ORR_BACKEND_GROUPED_GEMM : ORR_BACKEND_GEMM,
                         .phase = phase,
                         .out_bytes = out_bytes,
                         .dim = {48, 80, 96, batch}};
    return op;
}

/* Runs an op twice; the status of the first call that fails. */
static int run_once(const orr_backend *backend, void *self, const orr_backend_op *op,
                    orr_backend_message *message) {
    void *job = NULL;
    double seconds = -1;
    int status = backend->prepare(self, op, &job, message);
    if (status != ORR_BACKEND_OK) {
        return status;
    }
    for (int i = 0; i < 2 && status == ORR_BACKEND_OK; i++) {
        status = backend->run(self, job, &seconds, message);
    }
    if (status == ORR_BACKEND_OK) {
        assert_true(seconds >= 0);
    }
    backend->drop(self, job);
    return status;
}

static void every_op_runs_and_nothing_is_left(void **state) {
    (void)state;
    for (size_t v = 0; v < 2; v++) {
        orr_arena *arena = orr_arena_new();
        const orr_backend *backend = find(arena, &vendors[v]);
        orr_backend_message message = {""};
        orr_backend_identity identity;
        void *self = NULL;
        int before = live_of(vendors[v].shim);
        assert_int_equal(backend->open(vendors[v].shim, &self, &message), ORR_BACKEND_OK);
        assert_int_equal(backend->identify(self, &identity, &message), ORR_BACKEND_OK);
        assert_string_equal(identity.device, "shim 0");
        for (uint8_t phase = 0; phase < 3; phase++) {
            static const uint8_t outs[] = {2, 8};
            for (size_t o = 0; o < 2; o++) {
                for (uint64_t batch = 1; batch < 4; batch += 2) {
                    orr_backend_op op = product(phase, outs[o], batch);
                    if (run_once(backend, self, &op, &message) != ORR_BACKEND_OK) {
                        fail_msg("phase %u: %s", phase, message.text);
                    }
                }
            }
        }
        for (uint64_t kernels = 1; kernels < 4; kernels++) {
            orr_backend_op op = {.kind = ORR_BACKEND_MEMORY, .dim = {100000, kernels}};
            assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_OK);
        }
        orr_backend_op attention = {.kind = ORR_BACKEND_ATTENTION,
                                    .dim = {1, 1, 1, 64, 64, 0, 9, 9}};
        assert_int_equal(run_once(backend, self, &attention, &message), ORR_BACKEND_UNSUPPORTED);
        assert_int_equal(backend->meet(self, &message), ORR_BACKEND_OK);
        backend->close(self);
        assert_int_equal(live_of(vendors[v].shim), before);
        orr_arena_free(arena);
    }
}

static void a_device_that_cannot_be_opened_says_why(void **state) {
    (void)state;
    static const struct {
        const char *fault, *why;
    } cases[] = {{"version", "driver is of version 1"},
                 {"no-device", "sees no device"},
                 {"compile", "compiling a kernel failed with status 6"}};
    for (size_t v = 0; v < 2; v++) {
        orr_arena *arena = orr_arena_new();
        const orr_backend *backend = find(arena, &vendors[v]);
        int before = live_of(vendors[v].shim);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            orr_backend_message message = {""};
            void *self = NULL;
            assert_int_equal(setenv("ORR_SHIM_FAULT", cases[i].fault, 1), 0);
            assert_int_equal(backend->open(vendors[v].shim, &self, &message),
                             ORR_BACKEND_NO_DEVICE);
            assert_int_equal(unsetenv("ORR_SHIM_FAULT"), 0);
            if (strstr(message.text, cases[i].why) == NULL) {
                fail_msg("%s: '%s'", cases[i].fault, message.text);
            }
            assert_int_equal(live_of(vendors[v].shim), before);
        }
        orr_backend_message message = {""};
        void *self = NULL;
        assert_int_equal(backend->open(vendors[v].hole, &self, &message), ORR_BACKEND_NO_DEVICE);
        assert_non_null(strstr(message.text, "LtMatmul'"));
        assert_int_equal(backend->open("/no/such/library.so", &self, &message),
                         ORR_BACKEND_NO_DEVICE);
        assert_non_null(strstr(message.text, "not installed"));
        orr_arena_free(arena);
    }
}

/* ---- through the whole of measuring --------------------------------------------------------- */

static orr_measure_result measure(orr_arena *arena, const vendor *v, double limit_s) {
    static const char keys[] =
        "{model: {name: t, layers: 2, hidden: 128, heads: 2, kv_heads: 2, head_dim: 64, ffn: 256, "
        "vocab: 256}, hardware: h100, gpus: 1, mbs: 1, gbs: 1, seq: 64, software: executor}";
    orr_tree *tree = NULL;
    orr_err err = {0};
    orr_resolved *target = ORR_NEW(arena, orr_resolved);
    if (orr_yaml_read(arena, "plan", keys, strlen(keys), &tree, &err) != ORR_OK ||
        orr_plan_resolve(arena, tree, target, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_measure_request request = {.backend = find(arena, v),
                                   .options = v->shim,
                                   .parts = ORR_MEASURE_KERNELS,
                                   .repeats = 3,
                                   .limit_s = limit_s,
                                   .sweep_bytes = 1 << 20};
    orr_scope_of(arena, target, 1, &request.scope);
    orr_measure_result result;
    if (orr_measure(arena, &request, &result, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return result;
}

static bool says(const orr_measure_result *r, const char *why) {
    for (size_t g = 0; g < orr_tree_size(r->gaps); g++) {
        if (strstr(orr_tree_text(orr_tree_get(orr_tree_at(r->gaps, g), "why"), ""), why)) {
            return true;
        }
    }
    return false;
}

static void faults_of_the_device_leave_a_partial_result(void **state) {
    (void)state;
    static const struct {
        const char *fault, *why;
        bool some;
    } cases[] = {
        {"", "the framework probe does", true}, {"alloc", "no memory left", true},
        {"algorithm", "no algorithm", true},    {"sticky", "status 719", false},
        {"lost", "status 999", false},          {"hang", "nothing happened for 1 s", false}};
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            orr_arena *arena = orr_arena_new();
            assert_int_equal(setenv("ORR_SHIM_FAULT", cases[i].fault, 1), 0);
            const orr_measure_result r = measure(arena, &vendors[v], 1);
            assert_int_equal(unsetenv("ORR_SHIM_FAULT"), 0);
            if (!says(&r, cases[i].why)) {
                fail_msg("%s: nothing says '%s'", cases[i].fault, cases[i].why);
            }
            assert_true(!cases[i].some || r.evidence->count > 3);
            orr_arena_free(arena);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_runs_and_nothing_is_left),
        cmocka_unit_test(a_device_that_cannot_be_opened_says_why),
        cmocka_unit_test(faults_of_the_device_leave_a_partial_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
