/* Measuring: which part of a target plan fits on the devices at hand, which ops that is, and how
 * long they take.
 *
 * The part is chosen as Primus-projection does: pipeline first, then experts, context, tensor
 * parallelism last; layers are cut to one of each kind. Ops run in the order of the layer, each
 * timed on its own, so that caches are as they are in training. The measuring runs in a child
 * process; whatever ends it, what was measured until then is kept and what is missing is said. */
#ifndef ORR_ENGINE_H
#define ORR_ENGINE_H

#include "evidence/evidence.h"
#include "orrery/backend.h"
#include "plan/plan.h"
#include "program/program.h"

/* ---- what is in scope ----------------------------------------------------------------------- */

typedef struct orr_scope {
    const orr_resolved *target;
    const orr_resolved *reduced; /* the part that runs: pp 1, fewer experts where ep is smaller */
    uint32_t gpus;               /* that it runs on, at most those at hand */
    uint32_t at_hand;            /* replicas are not kept, but their collectives can be run */
} orr_scope;
/* gpus: at hand, at least 1. Pure; what it makes lives in arena. */
void orr_scope_of(orr_arena *arena, const orr_resolved *target, uint32_t gpus, orr_scope *out);
/* {gpus, reduced, layers, measured, restored: [{what, how}]}, for people and for the framework
 * probe. */
orr_tree *orr_scope_write(orr_arena *arena, const orr_scope *scope);

/* A list of distinct ops. */
typedef struct orr_work {
    uint32_t count, capacity;
    orr_op *op;
    bool *outside; /* [count] runs outside layers too: layers measured as a whole lack it */
} orr_work;
/* Ops of the reduced plan's embedding, head and one layer of each kind, then those of the end of a
 * step; with collectives that its ranks can form. */
orr_status orr_scope_work(orr_linker *linker, orr_arena *arena, const orr_scope *scope,
                          orr_work *out, orr_err *err);
/* The key under which an op's time is recorded. */
orr_evidence_key orr_measure_key(const orr_cluster *cluster, const orr_op *op);
/* What ends a step on one pipeline rank: reductions, gathers, optimizer, in order. */
uint32_t orr_closing_ops(const orr_program *program, uint32_t rank, orr_op ops[8]);

/* ---- back ends ------------------------------------------------------------------------------ */

/* "null", "replay", the name of a module ("cpu"), or its path. ORR_E_IO when it cannot be loaded,
 * ORR_E_CONFLICT when it is of another version or lacks a function. */
orr_status orr_backend_find(orr_arena *arena, const char *name, const orr_backend **out,
                            orr_err *err);
extern const orr_backend orr_backend_null, orr_backend_replay;

/* ---- measuring ------------------------------------------------------------------------------ */

typedef enum orr_measure_part {
    ORR_MEASURE_KERNELS = 1 << 0,
    ORR_MEASURE_COLLECTIVES = 1 << 1, /* a sweep of sizes */
    ORR_MEASURE_STEP = 1 << 2,        /* the plan itself, whole, on as many ranks as it has */
    ORR_MEASURE_CHECK = 1 << 3        /* results equal between ranks */
} orr_measure_part;

typedef struct orr_measure_request {
    orr_scope scope;
    const orr_backend *backend;
    const char *options; /* of the back end */
    uint32_t parts;      /* orr_measure_part bits */
    uint32_t repeats;    /* of each op; at least 3 */
    double limit_s;      /* of silence */
    double sweep_bytes;  /* largest collective of the sweep */
} orr_measure_request;

typedef struct orr_check_result {
    char name[64];
    double difference;
} orr_check_result;
enum { ORR_MAX_CHECKS = 32, ORR_MAX_GAPS = 256 };
/* Least share of the time that a quiet machine gives to what computes on it. */
#define ORR_QUIET_FRAC 0.9

typedef struct orr_measure_result {
    orr_evidence *evidence; /* records and steps; count may be 0 */
    orr_tree *gaps;         /* list of {what, why} */
    orr_backend_identity identity;
    uint32_t check_count;
    orr_check_result check[ORR_MAX_CHECKS];
    double step_s; /* median; 0: none */
    uint32_t step_samples;
    const double *step_sample_s; /* [step_samples] */
    bool interrupted;            /* somebody asked it to stop */
    double harness_frac;         /* own cost of measuring by what was measured */
    uint32_t runs, readings;     /* of ops, and of the clock for them */
    uint32_t messages;           /* from the child */
    double own_frac;             /* share of the time with the processor; 0: not known */
} orr_measure_result;

/* Never fails for what happens in the child: that is in gaps. Errors: the machine cannot start it,
 * the plan cannot be lowered. */
orr_status orr_measure(orr_arena *arena, const orr_measure_request *request,
                       orr_measure_result *out, orr_err *err);

#endif
