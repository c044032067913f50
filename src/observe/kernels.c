#include "observe/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum { SLOTS = 2 * MAX_KERNEL_NAMES, SHOWN = 12 };

kernel_trace *orr_kernels_new(orr_arena *arena) {
    kernel_trace *trace = ORR_NEW(arena, kernel_trace);
    trace->arena = arena;
    trace->name = ORR_NEW_ARRAY(arena, kernel_name, SLOTS);
    trace->rank = -1;
    return trace;
}

/* ---- classes, by words of kernel names in lower case ----------------------------------------- */

static bool holds_any(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strstr(text, *words) != NULL) {
            return true;
        }
    }
    return false;
}

static kernel_class class_of(const char *lower) {
    static const char *const communication[] = {
        "nccl",       "rccl",        "nvshmem",    "deep_ep",       "allreduce",
        "all_reduce", "allgather",   "all_gather", "reducescatter", "reduce_scatter",
        "alltoall",   "userbuffers", NULL};
    static const char *const attention[] = {"flash", "fmha", "attention", "sdpa", "attn", NULL};
    static const char *const loss[] = {"cross_entropy", "crossentropy", "nll_loss",
                                       "log_softmax",   "logsoftmax",   NULL};
    static const char *const optimizer[] = {"multi_tensor_apply", "multitensorapply", "adam",
                                            "lamb", NULL};
    static const char *const gemm[] = {"gemm",   "cutlass", "cublas", "nvjet", "xmma", "cijk",
                                       "matmul", "_mma_",   "s16816", "s1688", NULL};
    return holds_any(lower, communication) ? KERNEL_COMMUNICATION
           : holds_any(lower, attention)   ? KERNEL_ATTENTION
           : holds_any(lower, loss)        ? KERNEL_LOSS
           : holds_any(lower, optimizer)   ? KERNEL_OPTIMIZER
           : holds_any(lower, gemm)        ? KERNEL_GEMM
                                           : KERNEL_ELEMENTWISE;
}

static kernel_collective collective_of(const char *lower) {
    static const struct {
        const char *word;
        kernel_collective kind;
    } words[] = {
        {"allreduce", KERNEL_ALL_REDUCE},
        {"all_reduce", KERNEL_ALL_REDUCE},
        {"allgather", KERNEL_ALL_GATHER},
        {"all_gather", KERNEL_ALL_GATHER},
        {"reducescatter", KERNEL_REDUCE_SCATTER},
        {"reduce_scatter", KERNEL_REDUCE_SCATTER},
        {"sendrecv", KERNEL_SEND_RECV},
        {"alltoall", KERNEL_SEND_RECV},
        {"deep_ep", KERNEL_EXPERTS},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(lower, words[i].word) != NULL) {
            return words[i].kind;
        }
    }
    return KERNEL_OTHER;
}

/* ---- gathering ------------------------------------------------------------------------------- */

static bool push(kernel_trace *trace, kernel_spans *spans, double start_s, double end_s) {
    if (spans->count == MAX_KERNELS) {
        trace->dropped++;
        return false;
    }
    if (spans->count == spans->capacity) {
        size_t capacity = spans->capacity == 0 ? 1024 : 2 * spans->capacity;
        kernel_span *at = ORR_NEW_ARRAY(trace->arena, kernel_span, capacity);
        if (spans->count > 0) {
            memcpy(at, spans->at, spans->count * sizeof *at);
        }
        spans->at = at;
        spans->capacity = capacity;
    }
    spans->at[spans->count++] = (kernel_span){start_s, end_s};
    return true;
}

static void count_name(kernel_trace *trace, const char *name, kernel_class class, double time_s) {
    uint32_t hash = 2166136261u;
    for (const char *p = name; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    }
    uint32_t slot = hash % SLOTS;
    while (trace->name[slot].name != NULL && strcmp(trace->name[slot].name, name) != 0) {
        slot = (slot + 1) % SLOTS;
    }
    kernel_name *one = &trace->name[slot];
    if (one->name == NULL) {
        if (trace->names == MAX_KERNEL_NAMES) {
            return;
        }
        trace->names++;
        one->name = orr_arena_text(trace->arena, name);
        one->class = (uint8_t) class;
    }
    one->time_s += time_s;
    one->count++;
}

void orr_kernels_add(kernel_trace *trace, const char *name, bool copy, double start_s,
                     double end_s) {
    char lower[KERNEL_NAME_BYTES];
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof lower; n++) {
        lower[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] - 'A' + 'a' : name[n]);
    }
    lower[n] = '\0';
    bool sane = start_s >= 0 && end_s >= start_s && end_s < 1e12;
    if (!sane) {
        trace->dropped++;
        return;
    }
    kernel_class class = copy ? KERNEL_COPY : class_of(lower);
    bool talks = class == KERNEL_COMMUNICATION;
    if (!push(trace, talks ? &trace->communication : &trace->compute, start_s, end_s)) {
        return;
    }
    trace->first_s = trace->kernels == 0 ? start_s : orr_min_f64(trace->first_s, start_s);
    trace->last_s = orr_max_f64(trace->last_s, end_s);
    trace->kernels++;
    trace->class_s[class] += end_s - start_s;
    if (talks) {
        trace->collective_s[collective_of(lower)] += end_s - start_s;
    }
    count_name(trace, name, class, end_s - start_s);
}

void orr_kernels_step(kernel_trace *trace, double start_s) {
    trace->first_step_s = trace->steps == 0 ? start_s : orr_min_f64(trace->first_step_s, start_s);
    trace->last_step_s = orr_max_f64(trace->last_step_s, start_s);
    trace->steps++;
}

/* ---- what it says ---------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
    const kernel_span *x = (const kernel_span *)a, *y = (const kernel_span *)b;
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

/* Overlapping spans become one, in place; returns the time that they cover. */
static double merge(kernel_spans *spans) {
    if (spans->count == 0) {
        return 0;
    }
    qsort(spans->at, spans->count, sizeof *spans->at, by_start);
    size_t last = 0;
    double covered_s = 0;
    for (size_t i = 1; i < spans->count; i++) {
        if (spans->at[i].start_s <= spans->at[last].end_s) {
            spans->at[last].end_s = orr_max_f64(spans->at[last].end_s, spans->at[i].end_s);
        } else {
            spans->at[++last] = spans->at[i];
        }
    }
    spans->count = last + 1;
    for (size_t i = 0; i < spans->count; i++) {
        covered_s += spans->at[i].end_s - spans->at[i].start_s;
    }
    return covered_s;
}

/* Time that two merged lists share. */
static double shared_s(const kernel_spans *a, const kernel_spans *b) {
    double sum_s = 0;
    for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
        double start_s = orr_max_f64(a->at[i].start_s, b->at[k].start_s);
        double end_s = orr_min_f64(a->at[i].end_s, b->at[k].end_s);
        sum_s += orr_max_f64(0, end_s - start_s);
        if (a->at[i].end_s < b->at[k].end_s) {
            i++;
        } else {
            k++;
        }
    }
    return sum_s;
}

static int by_time(const void *a, const void *b) {
    const kernel_name *x = (const kernel_name *)a, *y = (const kernel_name *)b;
    if (x->time_s != y->time_s) {
        return x->time_s < y->time_s ? 1 : -1;
    }
    return x->name == NULL || y->name == NULL ? (x->name == NULL) - (y->name == NULL)
                                              : strcmp(x->name, y->name);
}

static const char *const class_names[KERNEL_CLASS_COUNT] = {
    "gemm", "attention", "elementwise", "loss", "optimizer", "copy", "communication"};
static const char *const collective_names[KERNEL_COLLECTIVE_COUNT] = {
    "all_reduce", "all_gather", "reduce_scatter", "send_recv", "experts", "other"};

static void put_s(orr_arena *arena, orr_tree *map, const char *name, double value_s) {
    orr_put_nonzero(arena, map, orr_arena_format(arena, "%s_s", name), value_s);
}

static orr_tree *write_top(kernel_trace *t, double steps) {
    orr_tree *list = orr_tree_new_list(t->arena);
    qsort(t->name, SLOTS, sizeof *t->name, by_time);
    for (size_t i = 0; i < SHOWN && t->name[i].name != NULL; i++) {
        orr_tree *one = orr_tree_push(t->arena, list, orr_tree_new_map(t->arena));
        orr_tree_put_text(t->arena, one, "name", t->name[i].name);
        orr_tree_put_text(t->arena, one, "class", class_names[t->name[i].class]);
        orr_tree_put_real(t->arena, one, "time_s", t->name[i].time_s / steps);
        orr_tree_put_real(t->arena, one, "count", t->name[i].count / steps);
    }
    return list;
}

void orr_kernels_finish(kernel_trace *t, const char *format, orr_observation *out) {
    orr_arena *arena = t->arena;
    if (t->kernels == 0) {
        return;
    }
    double steps = t->steps > 0 ? t->steps : 1, span_s = t->last_s - t->first_s;
    double step_s =
        t->steps > 1 ? (t->last_step_s - t->first_step_s) / (t->steps - 1.0) : span_s / steps;
    double compute_s = merge(&t->compute), talking_s = merge(&t->communication);
    double exposed_s = talking_s - shared_s(&t->compute, &t->communication);
    out->kind = ORR_OBSERVED_TRACE;
    out->format = format;
    orr_tree *map = out->tree = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "device", t->device != NULL ? t->device : "");
    if (t->rank >= 0) {
        orr_tree_put_int(arena, map, "rank", t->rank);
    }
    if (t->world > 0) {
        orr_tree_put_int(arena, map, "gpus", t->world);
    }
    orr_tree_put_int(arena, map, "steps", t->steps);
    orr_tree_put_int(arena, map, "kernels", (int64_t)t->kernels);
    orr_tree_put_real(arena, map, "step_time_s", step_s);
    orr_tree_put_real(arena, map, "compute_s", compute_s / steps);
    orr_tree_put_real(arena, map, "exposed_communication_s", exposed_s / steps);
    orr_tree_put_real(arena, map, "idle_s",
                      orr_max_f64(0, step_s - (compute_s + exposed_s) / steps));
    orr_tree *classes = orr_tree_put(arena, map, "classes", orr_tree_new_map(arena));
    for (int c = 0; c < KERNEL_CLASS_COUNT; c++) {
        put_s(arena, classes, class_names[c], t->class_s[c] / steps);
    }
    orr_tree *collectives = orr_tree_put(arena, map, "communication", orr_tree_new_map(arena));
    for (int c = 0; c < KERNEL_COLLECTIVE_COUNT; c++) {
        put_s(arena, collectives, collective_names[c], t->collective_s[c] / steps);
    }
    (void)orr_tree_put(arena, map, "top", write_top(t, steps));
    if (t->steps == 0) {
        orr_observation_warn(arena, out, "the trace marks no steps: all of it counts as one");
    }
    if (t->dropped > 0) {
        orr_observation_warn(arena, out, "%llu kernels are left out",
                             (unsigned long long)t->dropped);
    }
}
