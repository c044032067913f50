/* Plays a compiled order: one max-plus step a node, in integers.
 *
 * A repeated part is a max-plus linear map of the ends that later steps look back at. When these
 * ends, over the whole window, equal those of some blocks earlier plus one constant, they do so for
 * ever: the map commutes with adding a constant. The rest of the repetitions is then one
 * multiplication. */
#include <string.h>

#include "schedule/schedule_int.h"

typedef struct player {
    const orr_order *order;
    const orr_compiled *program;
    int64_t *duration; /* per class */
    int64_t *lag;      /* per hop class */
    int64_t *end;      /* per step played; end[0] is time zero */
    uint32_t used, capacity;
    uint32_t *part_start, *part_end; /* in end[] */
    orr_arena *scratch;
} player;

static void run(const orr_step *restrict s, uint32_t count, int64_t *end, const int64_t *lag,
                const int64_t *duration) {
    for (uint32_t i = 0; i < count; i++) {
        int64_t a = end[(int64_t)i - s[i].back] + lag[s[i].lag];
        int64_t b = end[(int64_t)i - s[i].back2] + lag[s[i].lag2];
        end[i] = (a > b ? a : b) + duration[s[i].duration];
    }
}

static void reserve(player *p, uint32_t more) {
    if (p->capacity - p->used < more) {
        uint32_t capacity = orr_max_u32(p->used + more, 2 * p->capacity);
        int64_t *end = ORR_NEW_ARRAY(p->scratch, int64_t, capacity);
        memcpy(end, p->end, p->used * sizeof *end);
        p->end = end;
        p->capacity = capacity;
    }
}

static void play_block(player *p, const orr_part *part) {
    reserve(p, part->count);
    run(p->program->step + part->first, part->count, p->end + p->used, p->lag, p->duration);
    p->used += part->count;
}

/* ---- cutting -------------------------------------------------------------------------------- */

enum { MAX_HISTORY = 64, SAMPLES = 4 };

/* A few differences inside the last block: equal ones make a shift likely, the whole comparison
 * decides. */
static uint64_t signature(const player *p, uint32_t count) {
    const int64_t *last = p->end + p->used - 1;
    uint64_t hash = 0;
    for (uint32_t i = 1; i <= SAMPLES; i++) {
        uint64_t difference =
            (uint64_t)(last[0] - last[-(int64_t)(count * (uint64_t)i / (SAMPLES + 1))]);
        hash = (hash ^ difference) * 0x9e3779b97f4a7c15u;
    }
    return hash;
}

/* Do the last `length` ends equal those `distance` earlier plus one constant? */
static bool is_shifted(const player *p, uint32_t length, uint32_t distance, int64_t *shift) {
    const int64_t *now = p->end + p->used - length, *then = now - distance;
    int64_t first = now[length - 1] - then[length - 1];
    for (uint32_t i = 0; i < length; i++) {
        if (now[i] - then[i] != first) {
            return false;
        }
    }
    *shift = first;
    return true;
}

/* Appends the window as it will be `shift` later. */
static void jump(player *p, uint32_t length, int64_t shift) {
    reserve(p, length);
    const int64_t *from = p->end + p->used - length;
    for (uint32_t i = 0; i < length; i++) {
        p->end[p->used + i] = from[i] + shift;
    }
    p->used += length;
}

static void play_repeated(player *p, const orr_part *part) {
    uint64_t history[MAX_HISTORY];
    uint32_t length = part->window * part->count, kept = 0;
    for (uint32_t block = 0; block < part->repeat; block++) {
        play_block(p, part);
        uint64_t now = signature(p, part->count);
        uint32_t left = part->repeat - 1 - block;
        for (uint32_t back = 1; back <= kept && back <= left; back++) {
            int64_t shift;
            /* the blocks compared must all be this part's or the equal ones just before it */
            if (history[(block - back) % MAX_HISTORY] != now || block + 1 < part->need ||
                part->window + back > part->lead + block + 1) {
                continue;
            }
            if (is_shifted(p, length, back * part->count, &shift)) {
                jump(p, length, (int64_t)(left / back) * shift);
                block += left / back * back;
                left = 0; /* the remainder is played, without looking for shifts again */
            }
            break;
        }
        if (left == 0) {
            while (++block < part->repeat) {
                play_block(p, part);
            }
            return;
        }
        history[block % MAX_HISTORY] = now;
        kept = orr_min_u32(kept + 1, MAX_HISTORY);
    }
}

static void play_all(player *p, bool full) {
    const orr_compiled *program = p->program;
    for (uint32_t i = 0; i < program->parts; i++) {
        const orr_part *part = &program->part[i];
        p->part_start[i] = p->used;
        if (part->repeat > 1 && part->window != 0 && !full) {
            play_repeated(p, part);
        } else {
            for (uint32_t k = 0; k < part->repeat; k++) {
                play_block(p, part);
            }
        }
        p->part_end[i] = p->used;
    }
}

/* ---- durations ------------------------------------------------------------------------------ */

static orr_status take(int64_t value, int64_t limit, const char *what, uint32_t index, int64_t *out,
                       orr_err *err) {
    if (value < 0 || value > limit) {
        return orr_fail(err, ORR_E_LIMIT, "the %s time of chunk %u is %lld ps, expected 0 to %lld",
                        what, index, (long long)value, (long long)limit);
    }
    *out = value;
    return ORR_OK;
}

orr_status orr_order_durations(orr_arena *scratch, const orr_order *o, const orr_durations *d,
                               int64_t **classes, int64_t **lags, orr_err *err) {
    uint32_t pp = o->view.spec.pp, vpp = o->view.spec.vpp, chunks = pp * vpp;
    /* On the way to an end each op lies once at most, and fewer than 16 hops an op: no sum
     * overflows. */
    uint64_t slots = (uint64_t)chunks * (o->per_chain + o->left_out / o->chains);
    int64_t limit = ((int64_t)1 << 58) / ((int64_t)slots + 1);
    int64_t *c = ORR_NEW_ARRAY(scratch, int64_t, 1 + 4 * (size_t)chunks + o->pairs);
    int64_t *lag = ORR_NEW_ARRAY(scratch, int64_t, pp + 1);
    for (uint32_t i = 0; i < chunks; i++) {
        int64_t w = 0;
        ORR_TRY(take(d->f[i], limit, "forward", i, &c[class_of(chunks, ORR_SOP_F, i)], err));
        ORR_TRY(take(d->b[i], limit, "backward", i, &c[class_of(chunks, ORR_SOP_B, i)], err));
        if (d->w != NULL) {
            ORR_TRY(take(d->w[i], limit, "weight gradient", i, &w, err));
        }
        c[class_of(chunks, ORR_SOP_W, i)] = w;
        c[class_of(chunks, ORR_SOP_BW, i)] = d->b[i] + w;
    }
    for (uint32_t i = 0; i < o->pairs; i++) {
        const pair_class *pair = &o->pair[i];
        uint32_t f = pair->rank * vpp + pair->chunk, b = pair->rank * vpp + pair->chunk2;
        int64_t sum = d->f[f] + d->b[b] + c[class_of(chunks, ORR_SOP_W, b)];
        if (d->pair != NULL) {
            ORR_TRY(take(d->pair[f], limit, "pair", f, &sum, err));
        }
        c[1 + 4 * (size_t)chunks + i] = sum;
    }
    for (uint32_t r = 0; r < pp && d->hop != NULL; r++) {
        ORR_TRY(take(d->hop[r], limit, "transfer", r, &lag[r + 1], err));
    }
    *classes = c;
    *lags = lag;
    return ORR_OK;
}

/* ---- results -------------------------------------------------------------------------------- */

static int64_t first_start(const player *p, const orr_probe *at) {
    return p->end[p->part_start[at->part] + at->offset] - p->duration[at->duration];
}

static int64_t last_end(const player *p, const orr_probe *at) {
    return p->end[p->part_end[at->part] - at->offset];
}

static int64_t busy(const player *p, uint32_t rank) {
    const orr_order *o = p->order;
    uint32_t vpp = o->view.spec.vpp, chunks = o->view.spec.pp * vpp;
    int64_t sum = 0;
    if (o->pairs == 0) {
        uint32_t each = o->per_chain + o->left_out / o->chains;
        for (uint32_t i = rank * vpp; i < (rank + 1) * vpp; i++) {
            sum += each * (p->duration[class_of(chunks, ORR_SOP_F, i)] +
                           p->duration[class_of(chunks, ORR_SOP_BW, i)]);
        }
        return sum;
    }
    for (uint32_t kind = ORR_SOP_F; kind <= ORR_SOP_BW; kind++) {
        for (uint32_t i = rank * vpp; i < (rank + 1) * vpp; i++) {
            uint32_t class = class_of(chunks, (orr_sched_op_kind)kind, i);
            sum += p->program->count[class] * p->duration[class];
        }
    }
    uint32_t end = rank + 1 == o->view.spec.pp ? o->pairs : o->pair_first[rank + 1];
    for (uint32_t i = o->pair_first[rank]; i < end; i++) {
        sum += p->program->count[1 + 4 * chunks + i] * p->duration[1 + 4 * chunks + i];
    }
    return sum;
}

static void collect(const player *p, orr_play *play) {
    const orr_schedule_spec *s = &p->order->view.spec;
    const orr_compiled *program = p->program;
    play->makespan = play->max_span = 0;
    for (uint32_t r = 0; r < s->pp; r++) {
        int64_t end = last_end(p, &program->rank_last[r]);
        int64_t span = end - first_start(p, &program->rank_first[r]);
        play->makespan = end > play->makespan ? end : play->makespan;
        play->max_span = span > play->max_span ? span : play->max_span;
        if (play->rank_end != NULL) {
            play->rank_end[r] = end;
        }
        if (play->rank_busy != NULL) {
            play->rank_busy[r] = busy(p, r);
        }
    }
    for (uint32_t i = 0; i < s->pp * s->vpp; i++) {
        if (play->grads_ready != NULL) {
            play->grads_ready[i] = last_end(p, &program->grads[i]);
        }
        if (play->first_use != NULL) {
            play->first_use[i] = first_start(p, &program->first_use[i]);
        }
    }
}

/* Whether no op is shorter than a hop next to its rank. */
static bool covers_hops(const player *p) {
    const orr_schedule_spec *s = &p->order->view.spec;
    uint32_t chunks = s->pp * s->vpp;
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t r = i / s->vpp;
        int64_t before = p->lag[r == 0 ? s->pp : r], after = p->lag[r + 1];
        int64_t hop = before > after ? before : after;
        if (p->duration[class_of(chunks, ORR_SOP_F, i)] < hop ||
            p->duration[class_of(chunks, ORR_SOP_BW, i)] < hop) {
            return false;
        }
    }
    for (uint32_t i = 0; i < p->order->pairs; i++) {
        uint32_t r = p->order->pair[i].rank;
        int64_t pair = p->duration[1 + 4 * (size_t)chunks + i];
        if (pair < p->lag[r == 0 ? s->pp : r] || pair < p->lag[r + 1]) {
            return false;
        }
    }
    return true;
}

orr_status orr_order_play(const orr_order *order, const orr_durations *d, bool full,
                          orr_arena *scratch, orr_play *play, orr_err *err) {
    player p = {.order = order, .scratch = scratch, .used = 1};
    ORR_TRY(orr_order_durations(scratch, order, d, &p.duration, &p.lag, err));
    p.program = &order->program;
    if (order->late != NULL && !covers_hops(&p)) {
        ORR_TRY(orr_order_late(order, &p.program, err));
    }
    const orr_compiled *program = p.program;
    p.capacity = 1 + program->total;
    if (!full) {
        uint32_t stored = 1;
        for (uint32_t i = 0; i < program->parts; i++) {
            const orr_part *part = &program->part[i];
            stored += part->count * orr_min_u32(part->repeat, 4 + 512 / part->count);
        }
        p.capacity = orr_min_u32(p.capacity, stored);
    }
    p.end = ORR_NEW_ARRAY(scratch, int64_t, p.capacity);
    p.part_start = ORR_NEW_ARRAY(scratch, uint32_t, 2 * (size_t)program->parts);
    p.part_end = p.part_start + program->parts;
    play_all(&p, full);
    collect(&p, play);
    return ORR_OK;
}
