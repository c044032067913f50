/* Lower bounds of the makespan from stage times alone. */
#include "base/mem.h"
#include "schedule/schedule_int.h"

typedef struct bound_state {
    const orr_schedule_spec *s;
    const orr_durations *d;
    uint32_t pp, vpp, chains, per_chain;
    uint8_t place;
    bool split;
    int64_t *head, *tail; /* [pp] least time before and after a rank's work */
} bound_state;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t weight_of(const bound_state *b, uint32_t index) {
    return b->d->w == NULL ? 0 : b->d->w[index];
}

/* An op inside an overlapped pair is done when the pair is, which may be sooner than alone. */
static int64_t forward_of(const bound_state *b, uint32_t index) {
    return b->d->pair == NULL ? b->d->f[index] : least(b->d->f[index], b->d->pair[index]);
}

static int64_t backward_of(const bound_state *b, uint32_t rank, uint32_t index) {
    int64_t t = b->d->b[index] + (b->split ? 0 : weight_of(b, index));
    for (uint32_t c = 0; c < b->vpp && b->d->pair != NULL; c++) {
        t = least(t, b->d->pair[rank * b->vpp + c]);
    }
    return t;
}

static int64_t hop_between(const bound_state *b, uint32_t from, uint32_t to) {
    if (from == to || b->d->hop == NULL) {
        return 0;
    }
    bool wraps = b->place == PLACE_LOOP && from == b->pp - 1;
    return b->d->hop[wraps ? from : orr_min_u32(from, to)];
}

/* Walks a chain once; the sum is the way of one micro-batch there and back. */
static int64_t walk(bound_state *b, uint32_t chain) {
    int64_t forward = 0, backward = 0;
    uint32_t before = UINT32_MAX;
    for (uint32_t row = 0; row < b->vpp / b->chains; row++) {
        bool turned = (b->place == PLACE_WAVE && row % 2 == 1) || chain == 1;
        uint32_t chunk = b->place == PLACE_TWO_WAY ? chain : row;
        for (uint32_t column = 0; column < b->pp; column++) {
            uint32_t rank = turned ? b->pp - 1 - column : column, index = rank * b->vpp + chunk;
            int64_t hop = before == UINT32_MAX ? 0 : hop_between(b, before, rank);
            forward += hop;
            backward += hop;
            b->head[rank] = least(b->head[rank], forward);
            b->tail[rank] = least(b->tail[rank], backward);
            forward += forward_of(b, index);
            backward += backward_of(b, rank, index);
            before = rank;
        }
    }
    return forward + backward;
}

/* Work of a rank: all of it, and that up to its last input gradient. */
static void work_of(const bound_state *b, uint32_t rank, int64_t *all, int64_t *until_last) {
    int64_t longest = 0, sum = 0, without_w = 0, saved = 0;
    for (uint32_t c = 0; c < b->vpp && b->d->pair != NULL; c++) {
        uint32_t i = rank * b->vpp + c;
        longest = most(longest, b->d->b[i] + weight_of(b, i));
    }
    for (uint32_t c = 0; c < b->vpp; c++) {
        uint32_t i = rank * b->vpp + c;
        sum += b->d->f[i] + b->d->b[i] + weight_of(b, i);
        without_w += b->d->f[i] + b->d->b[i] + (b->split ? 0 : weight_of(b, i));
        if (b->d->pair != NULL) {
            saved += most(0, b->d->f[i] + longest - b->d->pair[i]);
        }
    }
    *all = most(0, sum - saved) * b->per_chain;
    *until_last = most(0, without_w - saved) * b->per_chain;
}

int64_t orr_schedule_bound(const orr_schedule_spec *spec, const orr_durations *d) {
    if (spec->kind >= ORR_SCHEDULE_COUNT || spec->pp == 0 || spec->pp > ORR_MAX_PP) {
        return 0;
    }
    const kind_facts *facts = orr_schedule_facts((orr_schedule_kind)spec->kind);
    ORR_UNSET int64_t head[ORR_MAX_PP];
    ORR_UNSET int64_t tail[ORR_MAX_PP];
    bound_state b = {.s = spec,
                     .head = head,
                     .tail = tail,
                     .d = d,
                     .pp = spec->pp,
                     .vpp = facts->vpp != 0 ? facts->vpp : orr_max_u32(1, spec->vpp),
                     .place = facts->place,
                     .split = facts->split};
    bool placed = spec->kind != ORR_SCHEDULE_USER; /* a user may place chunks anywhere */
    b.chains = b.place == PLACE_TWO_WAY ? 2 : 1;
    b.per_chain = spec->micro_batches / b.chains;
    for (uint32_t r = 0; r < b.pp; r++) {
        b.head[r] = b.tail[r] = placed ? INT64_MAX : 0;
    }
    int64_t bound = 0;
    for (uint32_t chain = 0; chain < b.chains && placed; chain++) {
        bound = most(bound, walk(&b, chain));
    }
    for (uint32_t r = 0; r < b.pp; r++) {
        int64_t all, until_last;
        work_of(&b, r, &all, &until_last);
        bound = most(bound, b.head[r] + all);
        bound = most(bound, b.head[r] + until_last + b.tail[r]);
    }
    return bound;
}
