/* The child's work: ops timed in the order of the layer, collectives by size, checks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/os_run.h"
#include "engine/engine_int.h"

enum { MAX_REPEATS = 1000, WARM_UP = 2 };

/* ---- notes ---------------------------------------------------------------------------------- */

void orr_note_begin(const orr_measurer *m, const char *what) {
    orr_note note = {.kind = ORR_NOTE_BEGIN};
    (void)snprintf(note.what, sizeof note.what, "%s", what);
    (void)orr_os_send(m->channel, &note, sizeof note);
}

void orr_note_gap(const orr_measurer *m, const char *what, const char *why) {
    orr_note note = {.kind = ORR_NOTE_GAP};
    (void)snprintf(note.what, sizeof note.what, "%s", what);
    (void)snprintf(note.why, sizeof note.why, "%s", why);
    (void)orr_os_send(m->channel, &note, sizeof note);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double orr_sample_median(double *sample, uint32_t count) {
    qsort(sample, count, sizeof *sample, by_value);
    return count % 2 != 0 ? sample[count / 2] : (sample[count / 2 - 1] + sample[count / 2]) / 2;
}

static void note_record(const orr_measurer *m, uint32_t index, const orr_evidence_key *key,
                        double *sample_s, uint32_t count) {
    static const double NORMAL = 1.4826; /* of the median deviation, for one standard deviation */
    orr_note note = {.kind = ORR_NOTE_RECORD, .index = index};
    double off[MAX_REPEATS];
    double median_s = orr_sample_median(sample_s, count);
    for (uint32_t i = 0; i < count; i++) {
        off[i] = fabs(sample_s[i] - median_s);
    }
    note.record = (orr_evidence_record){.key = *key, .time_s = median_s, .samples = count};
    note.record.spread_frac = median_s > 0 ? NORMAL * orr_sample_median(off, count) / median_s : 0;
    (void)orr_os_send(m->channel, &note, sizeof note);
}

/* ---- ops ------------------------------------------------------------------------------------ */

orr_backend_op orr_backend_op_of(const orr_cluster *cluster, const orr_op *op) {
    orr_backend_op out = {.kind = op->kind,
                          .phase = op->phase,
                          .dtype = op->dtype,
                          .sub = op->sub,
                          .causal = op->causal,
                          .out_bytes = op->out_bytes};
    if (op->kind == ORR_OP_COLLECTIVE) {
        orr_group group = orr_cluster_group(cluster, op->shape.comm.size, op->shape.comm.stride);
        const uint64_t dim[] = {op->shape.comm.rank_bytes, op->shape.comm.size,
                                orr_max_u32(1, group.domains), op->shape.comm.stride};
        memcpy(out.dim, dim, sizeof dim);
        return out;
    }
    orr_evidence_key key;
    (void)orr_evidence_key_of(op, &key);
    memcpy(out.dim, key.dim, sizeof out.dim);
    return out;
}

/* The evidence key of what a back end ran. */
static orr_evidence_key key_of(const orr_backend_op *op) {
    orr_evidence_key key;
    memset(&key, 0, sizeof key);
    key.kind = op->kind;
    bool product = op->kind <= ORR_BACKEND_ATTENTION;
    if (product) {
        key.phase = op->phase;
        key.dtype = op->dtype;
        key.causal = op->kind == ORR_BACKEND_ATTENTION ? op->causal : 0;
        key.out_bytes = op->kind == ORR_BACKEND_ATTENTION ? 0 : op->out_bytes;
    } else {
        key.sub = op->sub;
    }
    memcpy(key.dim, op->dim, sizeof op->dim);
    if (op->kind == ORR_BACKEND_COLLECTIVE) {
        key.dim[3] = 0;
    }
    return key;
}

orr_evidence_key orr_measure_key(const orr_cluster *cluster, const orr_op *op) {
    orr_backend_op one = orr_backend_op_of(cluster, op);
    return key_of(&one);
}

const char *orr_backend_reason(int status, const orr_backend_message *message) {
    if (message->text[0] != '\0') {
        return message->text;
    }
    switch ((orr_backend_status)status) {
    case ORR_BACKEND_UNSUPPORTED: return "the back end does not run it";
    case ORR_BACKEND_NO_MEMORY: return "the device has no memory left for it";
    case ORR_BACKEND_NO_DEVICE: return "there is no device to measure on";
    case ORR_BACKEND_LOST: return "the device or another rank is gone";
    case ORR_BACKEND_OK:
    case ORR_BACKEND_FAILED: break;
    }
    return "the back end failed without saying why";
}

bool orr_backend_fatal(int status) {
    return status != ORR_BACKEND_OK && status != ORR_BACKEND_UNSUPPORTED &&
           status != ORR_BACKEND_NO_MEMORY;
}

/* One op, alone: seconds, by the back end's clock or the host's. */
static int run_timed(orr_measurer *m, void *job, double *time_s) {
    double device_s = 0, start_s = orr_os_clock_s();
    int status = m->backend->run(m->self, job, &device_s, &m->message);
    double host_s = orr_os_clock_s() - start_s;
    m->runs++;
    m->readings += 2;
    *time_s = m->backend->capabilities & ORR_BACKEND_HAS_CLOCK ? device_s : host_s;
    return status;
}

typedef struct timed {
    orr_backend_op op;
    void *job;
    double *sample_s; /* NULL: cannot be run */
    uint32_t index;
    const char *what;
} timed;

/* Why an op cannot run here; NULL: it can. */
static const char *out_of_scope(const orr_measurer *m, const orr_backend_op *op) {
    if (op->kind == ORR_BACKEND_COLLECTIVE && op->dim[1] > m->identity.ranks) {
        return orr_arena_format(m->arena, "needs %llu ranks, there are %u",
                                (unsigned long long)op->dim[1], m->identity.ranks);
    }
    return NULL;
}

static int prepare(orr_measurer *m, timed *one) {
    orr_evidence_key key = key_of(&one->op);
    one->what = orr_evidence_shape_text(m->arena, &key);
    const char *why = out_of_scope(m, &one->op);
    int status = ORR_BACKEND_OK;
    if (why == NULL) {
        orr_note_begin(m, one->what);
        m->message.text[0] = '\0';
        status = m->backend->prepare(m->self, &one->op, &one->job, &m->message);
        why = status == ORR_BACKEND_OK ? NULL : orr_backend_reason(status, &m->message);
    }
    if (why != NULL) {
        orr_note_gap(m, one->what, why);
        return orr_backend_fatal(status) ? status : ORR_BACKEND_OK;
    }
    one->sample_s = ORR_NEW_ARRAY(m->arena, double, m->request->repeats);
    one->index = m->next_index++;
    return ORR_BACKEND_OK;
}

/* One pass over all ops in order. Ranks meet before a collective, so that it does not count how
 * late the others are. */
static int pass(orr_measurer *m, timed *list, uint32_t count, int round) {
    int status = ORR_BACKEND_OK;
    for (uint32_t i = 0; i < count && status == ORR_BACKEND_OK; i++) {
        if (list[i].sample_s == NULL) {
            continue;
        }
        if (round == -WARM_UP) {
            orr_note_begin(m, list[i].what);
        }
        if (list[i].op.kind == ORR_BACKEND_COLLECTIVE) {
            status = m->backend->meet(m->self, &m->message);
        }
        double time_s = 0;
        if (status == ORR_BACKEND_OK) {
            status = run_timed(m, list[i].job, &time_s);
        }
        if (status == ORR_BACKEND_OK && round >= 0) {
            list[i].sample_s[round] = time_s;
        } else if (status != ORR_BACKEND_OK && !orr_backend_fatal(status)) {
            orr_note_gap(m, list[i].what, orr_backend_reason(status, &m->message));
            list[i].sample_s = NULL;
            status = ORR_BACKEND_OK;
        }
    }
    return status;
}

static void report(const orr_measurer *m, timed *list, uint32_t count, uint32_t samples) {
    double sorted[MAX_REPEATS];
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].sample_s != NULL) {
            orr_evidence_key key = key_of(&list[i].op);
            memcpy(sorted, list[i].sample_s, samples * sizeof *sorted);
            note_record(m, list[i].index, &key, sorted, samples);
        }
    }
}

/* The harness: two readings of the clock an op, by what the ops took. */
static void note_harness(const orr_measurer *m, const timed *list, uint32_t count) {
    enum { READINGS = 1000 };
    double start_s = orr_os_clock_s(), now_s = start_s, ops_s = 0;
    for (int i = 0; i < READINGS; i++) {
        now_s = orr_os_clock_s();
    }
    uint32_t ran = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].sample_s != NULL) {
            ops_s += list[i].sample_s[0];
            ran++;
        }
    }
    orr_note note = {.kind = ORR_NOTE_HARNESS, .index = m->readings};
    note.record.samples = m->runs;
    note.value = ops_s > 0 ? 2 * ran * (now_s - start_s) / READINGS / ops_s : 0;
    (void)orr_os_send(m->channel, &note, sizeof note);
}

static int measure_list(orr_measurer *m, timed *list, uint32_t count) {
    uint32_t repeats = m->request->repeats;
    int status = ORR_BACKEND_OK;
    for (uint32_t i = 0; i < count && status == ORR_BACKEND_OK; i++) {
        status = prepare(m, &list[i]);
    }
    for (int round = -WARM_UP; round < (int)repeats && status == ORR_BACKEND_OK; round++) {
        status = pass(m, list, count, round);
        if (round == 0 && status == ORR_BACKEND_OK) {
            report(m, list, count, 1); /* kept should a later round never end */
        }
    }
    if (status == ORR_BACKEND_OK) {
        report(m, list, count, repeats);
        note_harness(m, list, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].job != NULL) {
            m->backend->drop(m->self, list[i].job);
        }
    }
    return status;
}

int orr_measure_kernels(orr_measurer *m, const orr_work *work) {
    timed *list = ORR_NEW_ARRAY(m->arena, timed, work->count + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        list[count++].op = orr_backend_op_of(m->request->scope.target->cluster, &work->op[i]);
    }
    return measure_list(m, list, count);
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* Doubling sizes of every collective that the plan uses, over all ranks. */
int orr_measure_sweep(orr_measurer *m, const orr_work *work) {
    enum { FIRST_BYTES = 1 << 10, MAX_SIZES = 24 };
    if (!(m->backend->capabilities & ORR_BACKEND_HAS_RANKS) || m->identity.ranks < 2) {
        orr_note_gap(m, "collectives", "there is one rank");
        return ORR_BACKEND_OK;
    }
    bool used[ORR_COLLECTIVE_COUNT] = {false};
    used[ORR_SEND_RECV] = m->request->scope.target->plan.pipe.pp > 1;
    for (uint32_t i = 0; i < work->count; i++) {
        if (work->op[i].kind == ORR_OP_COLLECTIVE) {
            used[work->op[i].sub] = true;
        }
    }
    timed *list = ORR_NEW_ARRAY(m->arena, timed, ORR_COLLECTIVE_COUNT * MAX_SIZES);
    uint32_t count = 0;
    for (int kind = 0; kind < ORR_COLLECTIVE_COUNT; kind++) {
        double bytes = FIRST_BYTES;
        for (int s = 0; used[kind] && s < MAX_SIZES && bytes <= m->request->sweep_bytes; s++) {
            orr_backend_op *op = &list[count++].op;
            op->kind = ORR_BACKEND_COLLECTIVE;
            op->sub = (uint8_t)kind;
            op->dim[0] = (uint64_t)bytes;
            op->dim[1] = kind == ORR_SEND_RECV ? 2 : m->identity.ranks;
            op->dim[2] = op->dim[3] = 1;
            bytes *= 2;
        }
    }
    return measure_list(m, list, count);
}

/* ---- checks --------------------------------------------------------------------------------- */

int orr_measure_checks(orr_measurer *m) {
    if (!(m->backend->capabilities & ORR_BACKEND_HAS_CHECK)) {
        orr_note_gap(m, "checks", "the back end has none");
        return ORR_BACKEND_OK;
    }
    for (uint32_t i = 0; i < ORR_MAX_CHECKS; i++) {
        orr_note note = {.kind = ORR_NOTE_CHECK};
        const char *name = "";
        orr_note_begin(m, "checks");
        int status = m->backend->check(m->self, i, &name, &note.value, &m->message);
        if (status == ORR_BACKEND_UNSUPPORTED) {
            return ORR_BACKEND_OK;
        }
        if (status != ORR_BACKEND_OK) {
            return status;
        }
        (void)snprintf(note.what, sizeof note.what, "%s", name);
        (void)orr_os_send(m->channel, &note, sizeof note);
    }
    return ORR_BACKEND_OK;
}
