/* Inside of the schedule module: how an order is stored, and the steps that build it.
 *
 * order_*.c write op lists -> order.c finds each op and checks that all are there -> nodes.c turns
 * ops into max-plus nodes, compile.c puts these in topological order and folds the periodic part;
 * with blocking or overlapped transfers compile_calls.c does both, from the ops and the calls of
 * calls.c -> play.c runs the steps. */
#ifndef ORR_SCHEDULE_SCHEDULE_INT_H
#define ORR_SCHEDULE_SCHEDULE_INT_H

#include "base/err.h"
#include "base/num.h"
#include "schedule/schedule.h"

#define NO_NODE UINT32_MAX

/* Where chunks sit: see orr_order_view. */
typedef enum placement {
    PLACE_LINEAR, /* position = rank */
    PLACE_LOOP,   /* position = chunk * pp + rank */
    PLACE_WAVE,   /* odd chunks run back; V is the wave of two chunks */
    PLACE_TWO_WAY /* two chains; chunk 0 forth, chunk 1 back */
} placement;

/* What is known of a kind without building it. */
typedef struct kind_facts {
    const char *name, *aliases; /* aliases: separated by spaces */
    uint8_t place;              /* placement */
    uint8_t vpp;                /* implied, or 0 */
    bool split;                 /* B and W are separate ops */
    bool timed;                 /* the order depends on durations */
    bool pairs;                 /* has overlapped forward-backward pairs */
} kind_facts;
const kind_facts *orr_schedule_facts(orr_schedule_kind kind);

/* An op list under construction, rank after rank. */
typedef struct op_writer {
    orr_sched_op *op;
    uint32_t *op_first;
    uint32_t count, capacity, rank;
} op_writer;

static inline void put_op(op_writer *w, orr_sched_op_kind kind, uint32_t chunk,
                          uint32_t micro_batch) {
    w->op[w->count++] =
        (orr_sched_op){.kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .micro_batch = micro_batch};
}
static inline void put_pair(op_writer *w, uint32_t chunk, uint32_t micro_batch, uint32_t chunk2,
                            uint32_t micro_batch2) {
    w->op[w->count++] = (orr_sched_op){.kind = ORR_SOP_PAIR,
                                       .chunk = (uint16_t)chunk,
                                       .chunk2 = (uint16_t)chunk2,
                                       .micro_batch = micro_batch,
                                       .micro_batch2 = micro_batch2};
}
static inline void end_rank(op_writer *w) {
    w->op_first[++w->rank] = w->count;
}

/* One max-plus step: end = max(end(ref) + hop(lag), end(ref2) + hop(lag2)) + duration. */
typedef struct orr_node {
    uint32_t ref, ref2;   /* node numbers; NO_NODE: time zero */
    uint32_t duration;    /* class: index into the table of durations */
    uint16_t lag, lag2;   /* 0: none, else hop index + 1 */
    uint16_t rank, rank2; /* ranks of ref and ref2 */
} orr_node;

/* The same compiled: references are distances back, so that a run of nodes can be moved. */
typedef struct orr_step {
    uint32_t back, back2;
    uint32_t duration;
    uint16_t lag, lag2;
} orr_step;

/* Per-rank nodes: those of rank r are node[first[r]] .. node[first[r] + count[r] - 1]. */
typedef struct node_lists {
    orr_node *node;
    uint32_t *first, *count;
    uint32_t *of_op; /* per op: its node; NULL when node = op */
    uint32_t total;
} node_lists;

/* A run of steps. A repeated part is one period; it may be cut when what follows looks back no
 * further than `window` periods. */
typedef struct orr_part {
    uint32_t first, count; /* steps */
    uint32_t repeat;
    uint32_t id;     /* of the first step when everything is played; ids start at 1 */
    uint32_t window; /* periods; 0: never cut */
    uint32_t lead;   /* equal periods just before the part */
    uint32_t need;   /* periods played at least, so that first uses are seen */
} orr_part;

/* A value to pick up: the end of a step, as its offset from the start of a part (first uses) or
 * back from the part's end (last ones). */
typedef struct orr_probe {
    uint32_t part, offset;
    uint32_t duration; /* class of the step */
} orr_probe;

typedef struct orr_compiled {
    const orr_step *step;
    const orr_part *part;
    uint32_t parts;
    uint32_t total;                          /* steps when everything is played */
    const uint32_t *count;                   /* per class, of orders with pairs: steps played */
    const orr_probe *rank_first, *rank_last; /* [pp] */
    const orr_probe *first_use, *grads;      /* per chunk */
} orr_compiled;

/* Durations come in classes: 0 is zero, then per op kind (F, B, W, BW) one per chunk, then the
 * pairs. */
typedef struct pair_class {
    uint32_t rank, chunk, chunk2;
} pair_class;

/* Where the input of a chunk's forward or backward comes from. */
typedef struct orr_source {
    uint32_t
        slots; /* chunk index * micro-batches of a chain, into f_at or b_at; NO_NODE: nowhere */
    uint16_t rank, lag;
} orr_source;

struct orr_order {
    orr_order_view view;
    kind_facts facts;
    uint32_t chains;       /* 1, or 2 for two-way placements */
    uint32_t per_chain;    /* micro-batches of each chain */
    const uint32_t *owner; /* [chains * chain_length] chunk index (rank * vpp + chunk) */
    const orr_source *f_source, *b_source; /* per chunk */
    const uint32_t *f_at, *b_at;           /* [chunk * per_chain + micro-batch] op number */
    const pair_class *pair;
    const uint32_t *pair_first; /* [pp] */
    uint32_t pairs;
    uint32_t left_out; /* micro-batches of the whole run that the ops here lack */
    orr_compiled program;
    /* Overlapped transfers: `program` is valid while no op is shorter than a hop of its rank. The
     * one for other times is compiled at its first use. */
    struct late_program *late;
};

typedef struct late_program {
    orr_arena *arena; /* that of the order */
    orr_compiled program;
    bool made;
} late_program;

static inline uint32_t class_of(uint32_t chunks, orr_sched_op_kind kind, uint32_t chunk_index) {
    return 1 + (uint32_t)kind * chunks + chunk_index;
}

/* A time for an order that depends on durations: see orr_durations.unit_ps. */
static inline double orr_order_real(const orr_durations *d, int64_t ps) {
    return d->unit_ps > 0 ? (double)ps / d->unit_ps : (double)ps;
}

/* The same time for all stages: their mean. */
orr_durations orr_order_mean_times(orr_arena *work, const orr_durations *d, uint32_t pp,
                                   uint32_t vpp);

uint32_t orr_order_pair_class(const orr_order *order, uint32_t rank, const orr_sched_op *op);
static inline uint32_t orr_order_class(const orr_order *order, uint32_t rank,
                                       const orr_sched_op *op) {
    const orr_schedule_spec *s = &order->view.spec;
    return op->kind == ORR_SOP_PAIR
               ? orr_order_pair_class(order, rank, op)
               : class_of(s->pp * s->vpp, (orr_sched_op_kind)op->kind, rank * s->vpp + op->chunk);
}
orr_schedule_spec orr_order_resolve(const orr_schedule_spec *spec); /* fills in what is implied */
orr_status orr_order_refuse(const orr_schedule_spec *spec,
                            orr_err *err); /* when a rule is broken */
orr_status orr_order_finish(orr_arena *arena, orr_order *order,
                            orr_err *err); /* once ops are there */
/* A legal spec, built with `left_out` micro-batches fewer and repeated for these. ORR_E_INTERNAL
 * when the run is too short for that. */
orr_status orr_order_build_run(orr_arena *arena, const orr_schedule_spec *spec, uint32_t left_out,
                               const orr_durations *d, const orr_order **out, orr_err *err);
/* The order with all its ops; a brief one is built anew in `arena`. */
orr_status orr_order_whole(const orr_order *order, orr_arena *arena, const orr_order **out,
                           orr_err *err);
orr_status orr_order_nodes(orr_arena *arena, const orr_order *order, node_lists *out, orr_err *err);
/* ORR_E_INTERNAL when micro-batches are left out and the rest has no period to repeat for them. */
orr_status orr_order_compile(orr_arena *arena, const orr_order *order, const node_lists *lists,
                             orr_compiled *out, orr_err *err);
/* The same for an order with the framework's blocking or overlapped calls between the ops. `quick`
 * leaves waits out that cannot matter while no op is shorter than a hop. */
orr_status orr_order_compile_calls(orr_arena *arena, const orr_order *order, bool quick,
                                   orr_compiled *out, orr_err *err);
/* The program for any times, of an order with overlapped transfers. */
orr_status orr_order_late(const orr_order *order, const orr_compiled **out, orr_err *err);
/* Durations by class and hops by lag class; refuses what could overflow. */
orr_status orr_order_durations(orr_arena *scratch, const orr_order *order, const orr_durations *d,
                               int64_t **classes, int64_t **lags, orr_err *err);
orr_status orr_order_live(orr_arena *arena, orr_order *order, orr_err *err);

/* Generators. The spec is resolved and legal. */
void orr_order_gpipe(const orr_schedule_spec *s, op_writer *w);
void orr_order_1f1b(const orr_schedule_spec *s, op_writer *w);
void orr_order_interleaved(const orr_schedule_spec *s, op_writer *w);
void orr_order_looped_bfs(const orr_schedule_spec *s, op_writer *w);
void orr_order_interleaved_zb(const orr_schedule_spec *s, op_writer *w);
void orr_order_zb_h1(const orr_schedule_spec *s, op_writer *w);
void orr_order_zb_h2(const orr_schedule_spec *s, op_writer *w);
void orr_order_zb_h1_primus(const orr_schedule_spec *s, op_writer *w);
void orr_order_zbv(const orr_schedule_spec *s, op_writer *w);
void orr_order_dualpipe(orr_arena *work, const orr_schedule_spec *s, op_writer *w);
void orr_order_dualpipev(orr_arena *work, const orr_schedule_spec *s, op_writer *w);
orr_status orr_order_zb_auto(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d,
                             op_writer *out, orr_err *err);
void orr_order_v_pattern(orr_arena *work, const orr_schedule_spec *s, op_writer *w);
void orr_order_v_primus(orr_arena *work, const orr_schedule_spec *s, op_writer *w);
void orr_order_v_1f1b(orr_arena *work, const orr_schedule_spec *s, op_writer *w);
orr_status orr_order_grouped(orr_arena *work, const orr_schedule_spec *s, op_writer *w,
                             orr_err *err);
orr_status orr_order_zbv_auto(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d,
                              op_writer *out, orr_err *err);
orr_status orr_order_v_adaptive(orr_arena *work, const orr_schedule_spec *spec,
                                const orr_durations *d, op_writer *w, orr_err *err);
void orr_order_greedy(orr_arena *work, const orr_order *order, op_writer *w); /* once placed */

/* Calls between ops (calls.c), one list per rank. A post names the transfers it starts; a wait
 * stands for the k-th transfer of one kind on this rank. */
typedef enum item_type { ITEM_OP, ITEM_POST, ITEM_CALL, ITEM_WAIT } item_type;
enum { SEND_NEXT = 1, RECV_PREV = 2, SEND_PREV = 4, RECV_NEXT = 8 };
typedef struct call_item {
    uint32_t type : 2;   /* item_type */
    uint32_t what : 4;   /* transfer bits; one bit for a wait */
    uint32_t index : 26; /* op number, or k of a wait */
} call_item;
typedef struct call_lists {
    call_item *item;
    uint32_t *first; /* [pp+1] */
} call_lists;
uint32_t orr_order_warm_up(const orr_schedule_spec *s, uint32_t rank); /* of 1f1b, interleaved */
void orr_order_calls(orr_arena *arena, const orr_order *order, call_lists *out);

#endif
