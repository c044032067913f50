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
#include "shims/kernels_cpu.h"

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
        for (uint8_t sub = 0; sub < 6; sub++) {
            orr_backend_op op = {
                .kind = ORR_BACKEND_COLLECTIVE, .sub = sub, .dim = {10001, 2, 1, 1}};
            if (run_once(backend, self, &op, &message) != ORR_BACKEND_OK) {
                fail_msg("collective %u: %s", sub, message.text);
            }
            op.dim[1] = 3;
            assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_UNSUPPORTED);
        }
        assert_int_equal(identity.ranks, 2);
        assert_true(identity.clock_hz > 1.9e9 && !identity.slowed);
        orr_backend_op attention = {.kind = ORR_BACKEND_ATTENTION,
                                    .dim = {1, 1, 1, 64, 64, 0, 9, 9}};
        assert_int_equal(run_once(backend, self, &attention, &message), ORR_BACKEND_UNSUPPORTED);
        assert_int_equal(backend->meet(self, &message), ORR_BACKEND_OK);
        backend->close(self);
        assert_int_equal(live_of(vendors[v].shim), before);
        orr_arena_free(arena);
    }
}

/* fp8 with one scale a matrix, and mxfp8, fp8 in blocks, nvfp4 with scales by block: the shims
 * check that scales go with the format and are as many as the library reads. */
static void narrow_products_have_the_scales_of_their_format(void **state) {
    (void)state;
    for (size_t v = 0; v < 2; v++) {
        orr_arena *arena = orr_arena_new();
        const orr_backend *backend = find(arena, &vendors[v]);
        orr_backend_message message = {""};
        void *self = NULL;
        int before = live_of(vendors[v].shim);
        assert_int_equal(backend->open(vendors[v].shim, &self, &message), ORR_BACKEND_OK);
        for (uint8_t dtype = 3; dtype <= 6; dtype++) {
            for (uint8_t phase = 0; phase < 3; phase++) {
                for (uint64_t batch = 1; batch < 4; batch += 2) {
                    orr_backend_op op = product(phase, phase == 2 ? 8 : 2, batch);
                    op.dtype = dtype;
                    op.dim[2] = dtype == 5 ? 288 : 96; /* more than two blocks of 128 */
                    if (run_once(backend, self, &op, &message) != ORR_BACKEND_OK) {
                        fail_msg("format %u, phase %u: %s", dtype, phase, message.text);
                    }
                }
            }
        }
        orr_backend_op op = product(0, 2, 1);
        op.dtype = 7;
        assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_UNSUPPORTED);
        /* a library of before scales by block, and a device of the other 8-bit format */
        op.dtype = 4;
        assert_int_equal(setenv("ORR_SHIM_FAULT", "no-modes", 1), 0);
        assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_UNSUPPORTED);
        assert_non_null(strstr(message.text, "no scales by block"));
        op.dtype = 3;
        assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_OK);
        assert_int_equal(setenv("ORR_SHIM_FAULT", "fnuz", 1), 0);
        assert_int_equal(run_once(backend, self, &op, &message),
                         v == 0 ? ORR_BACKEND_UNSUPPORTED : ORR_BACKEND_OK);
        assert_int_equal(unsetenv("ORR_SHIM_FAULT"), 0);
        backend->close(self);
        assert_int_equal(live_of(vendors[v].shim), before);
        orr_arena_free(arena);
    }
}

static void own_attention_runs_when_asked_for(void **state) {
    (void)state;
    for (size_t v = 0; v < 2; v++) {
        orr_arena *arena = orr_arena_new();
        const orr_backend *backend = find(arena, &vendors[v]);
        orr_backend_message message = {""};
        void *self = NULL;
        int before = live_of(vendors[v].shim);
        const char *options = orr_arena_format(arena, "attention,%s", vendors[v].shim);
        assert_int_equal(backend->open(options, &self, &message), ORR_BACKEND_OK);
        for (uint8_t phase = 0; phase < 2; phase++) {
            for (uint8_t causal = 0; causal < 2; causal++) {
                orr_backend_op op = {.kind = ORR_BACKEND_ATTENTION,
                                     .phase = phase,
                                     .causal = causal,
                                     .dim = {2, 4, 2, 64, 48, 7, 33, 40}};
                if (run_once(backend, self, &op, &message) != ORR_BACKEND_OK) {
                    fail_msg("attention, phase %u: %s", phase, message.text);
                }
                op.dim[3] = 512;
                assert_int_equal(run_once(backend, self, &op, &message), ORR_BACKEND_UNSUPPORTED);
            }
        }
        backend->close(self);
        assert_int_equal(live_of(vendors[v].shim), before);
        orr_arena_free(arena);
    }
}

/* The kernels themselves, by finite differences of a weighted sum of the output. */
enum { HEADS = 4, KV = 2, DIM = 8, V_DIM = 6, SQ = 21, SK = 37 };
typedef struct problem {
    unsigned short q[HEADS * SQ * DIM], k[KV * SK * DIM], v[KV * SK * V_DIM];
    unsigned short out[HEADS * SQ * V_DIM], dout[HEADS * SQ * V_DIM];
    float lse[HEADS * SQ], delta[HEADS * SQ];
    unsigned short dq[HEADS * SQ * DIM], dk[KV * SK * DIM], dv[KV * SK * V_DIM];
    attention_shape s;
} problem;

static void fill_bits(unsigned short *to, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = kernel_narrow((float)(seed >> 8) / (float)(1 << 24) * 2.0f - 1.0f);
    }
}

/* In double, row by row; NULL: only the sum over outputs weighted by dout. */
static double reference(const problem *p, double *out) {
    double weighted = 0;
    for (unsigned h = 0; h < HEADS; h++) {
        for (unsigned i = 0; i < SQ; i++) {
            double w[SK], total = 0, top = -1e300;
            for (unsigned j = 0; j < SK; j++) {
                unsigned at = i + SK - SQ;
                bool seen = (!p->s.causal || j <= at) && (p->s.window == 0 || at < j + p->s.window);
                w[j] = seen ? 0 : -1e300;
                for (unsigned d = 0; seen && d < DIM; d++) {
                    w[j] += (double)p->s.scale * (double)kernel_wide(p->q[(h * SQ + i) * DIM + d]) *
                            (double)kernel_wide(p->k[(h / 2 * SK + j) * DIM + d]);
                }
                top = w[j] > top ? w[j] : top;
            }
            for (unsigned j = 0; j < SK; j++) {
                w[j] = w[j] > -1e299 ? exp(w[j] - top) : 0;
                total += w[j];
            }
            for (unsigned d = 0; d < V_DIM; d++) {
                double sum = 0;
                for (unsigned j = 0; j < SK; j++) {
                    sum += w[j] / total * (double)kernel_wide(p->v[(h / 2 * SK + j) * V_DIM + d]);
                }
                unsigned o = (h * SQ + i) * V_DIM + d;
                weighted += sum * (double)kernel_wide(p->dout[o]);
                if (out != NULL) {
                    out[o] = sum;
                }
            }
        }
    }
    return weighted;
}

/* Largest difference between gradients and finite differences of some elements. */
static void check_gradient(problem *p, unsigned short *x, const unsigned short *gradient,
                           size_t count) {
    for (size_t i = 0; i < count; i += 1 + count / 23) {
        unsigned short kept = x[i];
        float here = kernel_wide(kept);
        x[i] = kernel_narrow(here + 0.0625f);
        double up = reference(p, NULL), to = (double)kernel_wide(x[i]);
        x[i] = kernel_narrow(here - 0.0625f);
        double down = reference(p, NULL), from = (double)kernel_wide(x[i]);
        x[i] = kept;
        double slope = (up - down) / (to - from), found = (double)kernel_wide(gradient[i]);
        if (fabs(found - slope) > 0.02 + 0.02 * fabs(slope)) {
            fail_msg("element %zu: %g, by differences %g", i, found, slope);
        }
    }
}

static void kernels_compute_attention_and_its_gradients(void **state) {
    (void)state;
    static problem p;
    for (unsigned way = 0; way < 4; way++) {
        p.s = (attention_shape){HEADS, KV, DIM, V_DIM, way > 1 ? 9 : 0, SQ, SK, way % 2, 0.35f};
        if (way == 2) {
            p.s.causal = 1; /* a window looks back */
        }
        fill_bits(p.q, sizeof p.q / 2, 1);
        fill_bits(p.k, sizeof p.k / 2, 2);
        fill_bits(p.v, sizeof p.v / 2, 3);
        fill_bits(p.dout, sizeof p.dout / 2, 4);
        threadIdx.x = 0;
        blockDim.x = 1;
        for (blockIdx.y = 0; blockIdx.y < HEADS; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < SQ; blockIdx.x++) {
                attend(p.q, p.k, p.v, p.out, p.lse, p.s);
                attend_dq(p.q, p.k, p.v, p.out, p.dout, p.lse, p.delta, p.dq, p.s);
            }
        }
        for (blockIdx.y = 0; blockIdx.y < KV; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < SK; blockIdx.x++) {
                attend_dkv(p.q, p.k, p.v, p.dout, p.lse, p.delta, p.dk, p.dv, p.s);
            }
        }
        static double wanted[HEADS * SQ * V_DIM];
        (void)reference(&p, wanted);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            assert_true(fabs((double)kernel_wide(p.out[i]) - wanted[i]) < 0.01);
        }
        check_gradient(&p, p.q, p.dq, sizeof p.q / 2);
        check_gradient(&p, p.k, p.dk, sizeof p.k / 2);
        check_gradient(&p, p.v, p.dv, sizeof p.v / 2);
    }
}

static void a_device_that_cannot_be_opened_says_why(void **state) {
    (void)state;
    static const struct {
        const char *fault, *why;
    } cases[] = {{"version", "driver is of version 1"},
                 {"no-device", "sees no device"},
                 {"compile", "compiling the kernel 'stream' failed with status 6"}};
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
        "vocab: 256}, hardware: h100, gpus: 2, mbs: 1, gbs: 2, seq: 64, software: executor}";
    orr_tree *tree = NULL;
    orr_err err = {0};
    orr_resolved *target = ORR_NEW(arena, orr_resolved);
    if (orr_yaml_read(arena, "plan", keys, strlen(keys), &tree, &err) != ORR_OK ||
        orr_plan_resolve(arena, tree, target, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_measure_request request = {.backend = find(arena, v),
                                   .options = v->shim,
                                   .parts = ORR_MEASURE_KERNELS | ORR_MEASURE_COLLECTIVES,
                                   .repeats = 3,
                                   .limit_s = limit_s,
                                   .sweep_bytes = 1 << 20};
    orr_scope_of(arena, target, 2, &request.scope);
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
    } cases[] = {{"", "the framework probe does", true},
                 {"alloc", "no memory left", true},
                 {"algorithm", "no algorithm", true},
                 {"alone", "one rank", true},
                 {"rank-dies", "status 6", false},
                 {"throttle", "slowed itself down", true},
                 {"sticky", "status 719", false},
                 {"lost", "status 999", false},
                 {"hang", "nothing happened for 1 s", false}};
    for (size_t v = 0; v < 2; v++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (v == 1 && strcmp(cases[i].fault, "throttle") == 0) {
                continue; /* ROCm SMI gives clocks, no reasons */
            }
            orr_arena *arena = orr_arena_new();
            assert_int_equal(setenv("ORR_SHIM_FAULT", cases[i].fault, 1), 0);
            const orr_measure_result r = measure(arena, &vendors[v], 1);
            assert_int_equal(unsetenv("ORR_SHIM_FAULT"), 0);
            if (!says(&r, cases[i].why)) {
                fail_msg("%s: nothing says '%s'", cases[i].fault, cases[i].why);
            }
            if (cases[i].some && r.evidence->count <= 3) {
                fail_msg("%s: %u records", cases[i].fault, r.evidence->count);
            }
            orr_arena_free(arena);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_runs_and_nothing_is_left),
        cmocka_unit_test(narrow_products_have_the_scales_of_their_format),
        cmocka_unit_test(own_attention_runs_when_asked_for),
        cmocka_unit_test(kernels_compute_attention_and_its_gradients),
        cmocka_unit_test(a_device_that_cannot_be_opened_says_why),
        cmocka_unit_test(faults_of_the_device_leave_a_partial_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
