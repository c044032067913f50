/* Developing a building block of the adaptive V schedule into rows of slots: repeated, squeezed,
 * warm-up and cool-down reordered, bubbles filled, never above the peak of the block. Source:
 * Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), the authors'
 * v_auto_schedule.py. Every step may spoil a candidate; such ones are dropped. */
#include <string.h>

#include "schedule/order_v_block.h"
#include "schedule/schedule_int.h"

static int32_t *slot_at(const v_candidate *c, uint32_t mb, uint32_t rank, uint32_t type) {
    return &c->slots[((size_t)mb * c->rows.pp + rank) * V_TYPES + type];
}

static void forget_slots(v_candidate *c) {
    memset(c->slots, 0xff, (size_t)c->m * c->rows.pp * V_TYPES * sizeof *c->slots);
}

static uint32_t peak_of(const v_candidate *c) {
    uint32_t most = 0;
    for (uint32_t r = 0; r < c->rows.pp; r++) {
        const uint8_t *row = v_row(&c->rows, r);
        uint32_t now = 0, peak = 0;
        for (uint32_t t = 0; t < c->rows.length; t++) {
            now += v_is_f(row[t]);
            now -= v_is_w(row[t]);
            peak = now > peak && now < UINT32_MAX / 2 ? now : peak;
        }
        c->peaks[r] = peak;
        most = orr_max_u32(most, peak);
    }
    return most;
}

/* ---- squeezing ------------------------------------------------------------------------------ */

/* The slot of the op that an op waits for on another rank or, at the turns, on its own; -1:
 * nothing, -2: it is not placed yet. */
static int32_t source_slot(const v_candidate *c, uint32_t mb, uint32_t rank, uint8_t type) {
    bool last = rank + 1 == c->rows.pp;
    int32_t slot = 0;
    switch (type) {
    case V_F0: slot = rank == 0 ? -1 : *slot_at(c, mb, rank - 1, V_F0); break;
    case V_F1: slot = last ? *slot_at(c, mb, rank, V_F0) : *slot_at(c, mb, rank + 1, V_F1); break;
    case V_B1: slot = rank == 0 ? *slot_at(c, mb, 0, V_F1) : *slot_at(c, mb, rank - 1, V_B1); break;
    case V_B0: slot = last ? *slot_at(c, mb, rank, V_B1) : *slot_at(c, mb, rank + 1, V_B0); break;
    case V_W1: slot = *slot_at(c, mb, rank, V_B1); break;
    default: slot = *slot_at(c, mb, rank, V_B0); break;
    }
    return slot == -1 && !(type == V_F0 && rank == 0) ? -2 : slot;
}

static bool squeeze_op(v_candidate *c, uint32_t rank, uint8_t type, uint32_t *seen,
                       uint32_t *next) {
    uint32_t mb = seen[rank * V_TYPES + type]++;
    if (mb >= c->m) {
        return false;
    }
    int32_t source = v_is_w(type) ? -1 : source_slot(c, mb, rank, type);
    if (source == -2) {
        return false;
    }
    uint32_t slot = orr_max_u32(next[rank], (uint32_t)(source + 1));
    if (slot >= c->spare.capacity) {
        return false;
    }
    v_row(&c->spare, rank)[slot] = type;
    *slot_at(c, mb, rank, type) = (int32_t)slot;
    next[rank] = slot + 1;
    return true;
}

/* Moves every op to the earliest slot that keeps the order on its rank. */
static bool squeeze(v_candidate *c, orr_arena *work) {
    uint32_t pp = c->rows.pp, length = 0;
    uint32_t *seen = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * (V_TYPES + 1));
    uint32_t *next = seen + (size_t)pp * V_TYPES;
    forget_slots(c);
    memset(c->spare.slot, V_FREE, (size_t)pp * c->spare.capacity);
    for (uint32_t t = 0; t < c->rows.length; t++) {
        for (uint32_t k = 0; k < 2 * pp; k++) {
            uint32_t r = k < pp ? k : 2 * pp - 1 - k;
            uint8_t type = v_row(&c->rows, r)[t];
            bool now = type != V_FREE && v_runs_down(type) == (k < pp);
            if (now && !squeeze_op(c, r, type, seen, next)) {
                return false;
            }
        }
    }
    for (uint32_t r = 0; r < pp; r++) {
        length = orr_max_u32(length, next[r]);
    }
    v_rows old = c->rows;
    c->rows = c->spare;
    c->rows.length = length;
    c->spare = old;
    return true;
}

/* ---- warm-up -------------------------------------------------------------------------------- */

typedef struct filler {
    uint8_t *row;
    uint32_t at, end;
    uint32_t left[V_TYPES];
} filler;

static void put_if(filler *f, uint8_t type, bool wanted) {
    if (wanted && f->left[type] > 0 && f->at < f->end) {
        f->row[f->at] = type;
        f->left[type]--;
    }
    f->at++;
}

/* Before the first B of chunk 0 on a rank: as many F of chunk 0 as memory allows less those of
 * chunk 1, then B, W and forwards in turn. */
static void refill_warm_up(filler *f, uint32_t pp, uint32_t rank, uint32_t f0, uint32_t f1) {
    uint32_t all0 = f->left[V_F0], all1 = f->left[V_F1];
    for (uint32_t k = 0; k < 2 * (pp - 1 - rank); k++) {
        put_if(f, V_F0, all0 - f->left[V_F0] < f0);
    }
    for (uint32_t k = 0; k <= rank; k++) {
        put_if(f, V_F0, all0 - f->left[V_F0] < f0);
        put_if(f, V_F1, all1 - f->left[V_F1] < f1);
    }
    while (f->left[V_F0] + f->left[V_F1] + f->left[V_B1] + f->left[V_W1] > 0 && f->at < f->end) {
        put_if(f, V_B1, true);
        put_if(f, V_W1, true);
        put_if(f, f->left[V_F1] > 0 ? V_F1 : V_F0, true);
    }
}

static bool reorder_warm_up(v_candidate *c) {
    uint32_t pp = c->rows.pp, peak = orr_min_u32(peak_of(c), 2 * pp);
    for (uint32_t r = 0; r < pp; r++) {
        uint8_t *row = v_row(&c->rows, r);
        uint32_t f1 = orr_min_u32(orr_min_u32(r + 1, peak / 2), c->m);
        uint32_t f0 = orr_min_u32(peak - f1, c->m);
        filler f = {.row = row, .at = r, .end = c->rows.length};
        for (uint32_t t = 0; t < c->rows.length && row[t] != V_B0; t++) {
            if (row[t] == V_W0) {
                return false;
            }
            if (row[t] != V_FREE) {
                f.left[row[t]]++;
            }
            row[t] = V_FREE;
        }
        refill_warm_up(&f, pp, r, f0, f1);
    }
    return true;
}

/* ---- fewer micro-batches than the pattern needs ---------------------------------------------- */

static void drop_redundant(v_candidate *c, uint32_t m) {
    for (uint32_t r = 0; r < c->rows.pp; r++) {
        uint32_t seen[V_TYPES] = {0};
        uint8_t *row = v_row(&c->rows, r);
        for (uint32_t t = 0; t < c->rows.length; t++) {
            if (row[t] != V_FREE && seen[row[t]]++ >= m) {
                row[t] = V_FREE;
            }
        }
    }
    c->m = m;
}

/* Puts early W off to the end while that does not raise the peak: it only makes bubbles. */
static bool put_off_w(v_candidate *c, uint32_t peak) {
    uint32_t least = UINT32_MAX;
    peak_of(c);
    for (uint32_t r = 0; r < c->rows.pp; r++) {
        least = orr_min_u32(least, c->peaks[r]);
    }
    uint32_t room = peak > least ? peak - least : 0;
    if (c->rows.length + room > c->rows.capacity) {
        return false;
    }
    for (uint32_t r = 0; r < c->rows.pp; r++) {
        uint8_t *row = v_row(&c->rows, r);
        uint32_t moved = 0;
        for (uint32_t t = 0; t < c->rows.length && c->peaks[r] + moved < peak; t++) {
            if (v_is_w(row[t])) {
                row[c->rows.length + moved++] = row[t];
                row[t] = V_FREE;
            }
        }
    }
    c->rows.length += room;
    return true;
}

/* ---- cool-down ------------------------------------------------------------------------------ */

/* Takes the last B and W of a rank off; returns how many B of each chunk. */
static void clear_tail(v_candidate *c, uint32_t rank, uint32_t most_b1, uint32_t most_b0,
                       uint32_t peak, uint32_t taken[V_TYPES], int32_t *last_f1) {
    uint8_t *row = v_row(&c->rows, rank);
    memset(taken, 0, V_TYPES * sizeof *taken);
    *last_f1 = -1;
    for (uint32_t t = c->rows.length; t-- > 0;) {
        if (row[t] == V_F1 && *last_f1 < 0) {
            *last_f1 = (int32_t)t;
        }
        bool take = (row[t] == V_B1 && taken[V_B1] < orr_min_u32(rank + 1, most_b1)) ||
                    (row[t] == V_B0 && taken[V_B0] < most_b0);
        if (take) {
            taken[row[t]]++;
            row[t] = V_FREE;
        }
    }
    for (uint32_t t = c->rows.length; t-- > 0;) {
        if (taken[V_W1] >= taken[V_B1] && taken[V_W0] >= taken[V_B0] &&
            taken[V_W1] + taken[V_W0] >= peak) {
            break;
        }
        if (v_is_w(row[t])) {
            taken[row[t]]++;
            row[t] = V_FREE;
        }
    }
}

/* W into the free slots behind the last one left, else at the end. */
static bool put_w_back(v_candidate *c, uint32_t rank, uint32_t *end) {
    uint8_t *row = v_row(&c->rows, rank);
    int32_t last = -1, due[2] = {0, 0};
    for (uint32_t t = 0; t < c->rows.length; t++) {
        last = v_is_w(row[t]) ? (int32_t)t : last;
    }
    for (uint32_t t = 0; t < c->rows.length; t++) {
        uint8_t type = row[t];
        if (type == V_FREE && (int32_t)t > last && (due[0] > 0 || due[1] > 0)) {
            row[t] = due[0] > 0 ? V_W1 : V_W0;
            due[due[0] > 0 ? 0 : 1]--;
        } else if (type == V_B1 || type == V_W1) {
            due[0] += type == V_B1 ? 1 : -1;
        } else if (type == V_B0 || type == V_W0) {
            due[1] += type == V_B0 ? 1 : -1;
        }
    }
    *end = c->rows.length;
    for (int k = 0; k < 2; k++) {
        for (; due[k] > 0; due[k]--) {
            if (*end == c->rows.capacity) {
                return false;
            }
            row[(*end)++] = k == 0 ? V_W1 : V_W0;
        }
    }
    return true;
}

static bool put_tail(v_candidate *c, uint32_t rank, int32_t slot, uint8_t type, bool onto_free) {
    int32_t length = (int32_t)c->rows.length;
    slot = slot < 0 ? slot + length : slot;
    if (slot < 0 || slot >= length) {
        return false;
    }
    uint8_t *cell = &v_row(&c->rows, rank)[slot];
    if (onto_free && *cell != V_FREE) {
        return false;
    }
    *cell = type;
    return true;
}

/* After the last F of chunk 1, backwards follow each other as tightly as dependencies allow. */
static bool reorder_cool_down(v_candidate *c, orr_arena *work) {
    uint32_t pp = c->rows.pp, peak = peak_of(c), longest = 0;
    uint32_t most_b0 = orr_min_u32((peak + 1) / 2, c->m);
    uint32_t most_b1 = orr_min_u32(peak - most_b0, c->m);
    int32_t start = -1;
    if (peak > 2 * pp) {
        return false;
    }
    for (uint32_t r = 0; r < pp; r++) {
        uint32_t taken[V_TYPES];
        int32_t last_f1, rank = (int32_t)r;
        clear_tail(c, r, most_b1, most_b0, peak, taken, &last_f1);
        start = r == 0 ? last_f1 : start;
        bool fits = true;
        for (int32_t k = 0; k < (int32_t)taken[V_B0]; k++) {
            fits = fits && put_tail(c, r, start - rank + 2 * (int32_t)pp - 2 * k, V_B0, true);
        }
        for (int32_t k = 0; k < (int32_t)taken[V_B1]; k++) {
            fits = fits && put_tail(c, r, start + 1 + rank - 2 * k, V_B1, false);
        }
        if (!fits) {
            return false;
        }
    }
    for (uint32_t r = 0; r < pp; r++) {
        uint32_t end;
        if (!put_w_back(c, r, &end)) {
            return false;
        }
        longest = orr_max_u32(longest, end);
    }
    c->rows.length = longest;
    return squeeze(c, work);
}

/* ---- filling bubbles ------------------------------------------------------------------------ */

typedef struct bubble_filler {
    v_candidate *c;
    uint32_t peak;
    uint32_t *memory; /* [pp] */
    uint32_t *count;  /* [pp][V_TYPES] */
    uint32_t *last;   /* [pp][V_TYPES] slot of the last op of a type, plus 1 */
} bubble_filler;

static void settle(bubble_filler *b, uint32_t rank, uint8_t type, uint32_t slot) {
    uint32_t mb = b->count[rank * V_TYPES + type]++;
    *slot_at(b->c, mb, rank, type) = (int32_t)slot;
    b->memory[rank] += v_is_f(type);
    b->memory[rank] -= v_is_w(type);
}

static bool may_move(const bubble_filler *b, uint32_t rank, uint8_t type, uint32_t slot) {
    uint32_t mb = b->count[rank * V_TYPES + type];
    int32_t source = mb < b->c->m ? source_slot(b->c, mb, rank, type) : -2;
    return source != -2 && source < (int32_t)slot;
}

/* Looks for an op further on that could run in a free slot, each type's next one only. */
static void fill_bubble(bubble_filler *b, uint32_t rank, uint32_t slot) {
    uint8_t *row = v_row(&b->c->rows, rank);
    uint32_t open = 0;
    int32_t change = 0, high = 0;
    for (uint32_t type = 0; type < V_TYPES; type++) {
        open |= (b->last[rank * V_TYPES + type] > slot + 1 ? 1u : 0u) << type;
    }
    for (uint32_t t = slot + 1; t < b->c->rows.length && open != 0; t++) {
        uint8_t type = row[t];
        if (type == V_FREE) {
            continue;
        }
        int32_t before = high;
        change += v_is_f(type) ? 1 : v_is_w(type) ? -1 : 0;
        high = change > high ? change : high;
        if ((open >> type & 1) == 0) {
            continue;
        }
        open &= ~(1u << type);
        bool too_much = v_is_f(type) && (int32_t)b->memory[rank] + before >= (int32_t)b->peak;
        if (!too_much && may_move(b, rank, type, slot)) {
            row[slot] = type;
            row[t] = V_FREE;
            settle(b, rank, type, slot);
            return;
        }
    }
}

static bool fill_bubbles(v_candidate *c, orr_arena *work) {
    uint32_t pp = c->rows.pp;
    bubble_filler b = {.c = c, .peak = peak_of(c)};
    b.memory = ORR_NEW_ARRAY(work, uint32_t, pp);
    b.count = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * V_TYPES);
    b.last = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * V_TYPES);
    for (uint32_t r = 0; r < pp; r++) {
        const uint8_t *row = v_row(&c->rows, r);
        for (uint32_t t = 0; t < c->rows.length; t++) {
            if (row[t] != V_FREE) {
                b.last[r * V_TYPES + row[t]] = t + 1;
            }
        }
    }
    forget_slots(c);
    for (uint32_t t = 0; t < c->rows.length; t++) {
        for (uint32_t r = 0; r < pp; r++) {
            uint8_t type = v_row(&c->rows, r)[t];
            if (type == V_FREE) {
                fill_bubble(&b, r, t);
            } else if (b.count[r * V_TYPES + type] < c->m) {
                settle(&b, r, type, t);
            } else {
                return false;
            }
        }
    }
    return true;
}

/* ---- judging -------------------------------------------------------------------------------- */

/* Gives the W of both chunks out in the order of their B. False when ops are missing. */
static bool relabel_w(v_candidate *c, orr_arena *work) {
    uint8_t *queue = ORR_NEW_ARRAY(work, uint8_t, 2 * (size_t)c->m);
    for (uint32_t r = 0; r < c->rows.pp; r++) {
        uint32_t head = 0, tail = 0, count[V_TYPES] = {0};
        uint8_t *row = v_row(&c->rows, r);
        for (uint32_t t = 0; t < c->rows.length; t++) {
            uint8_t type = row[t];
            if (type == V_FREE) {
                continue;
            }
            if (++count[type] > c->m || (v_is_w(type) && head == tail)) {
                return false;
            }
            if (type == V_B1 || type == V_B0) {
                queue[tail++] = type == V_B1 ? V_W1 : V_W0;
            } else if (v_is_w(type)) {
                row[t] = queue[head++];
            }
        }
        for (uint32_t type = 0; type < V_TYPES; type++) {
            if (count[type] != c->m) {
                return false;
            }
        }
    }
    return true;
}

static bool is_correct(v_candidate *c, orr_arena *work) {
    uint32_t pp = c->rows.pp;
    uint32_t *seen = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * V_TYPES);
    forget_slots(c);
    for (uint32_t r = 0; r < pp; r++) {
        const uint8_t *row = v_row(&c->rows, r);
        for (uint32_t t = 0; t < c->rows.length; t++) {
            if (row[t] != V_FREE) {
                uint32_t mb = seen[r * V_TYPES + row[t]]++;
                *slot_at(c, mb, r, row[t]) = (int32_t)t;
            }
        }
    }
    for (uint32_t mb = 0; mb < c->m; mb++) {
        for (uint32_t r = 0; r < pp; r++) {
            for (uint8_t type = 0; type < V_TYPES; type++) {
                int32_t source = source_slot(c, mb, r, type);
                if (source == -2 || source >= *slot_at(c, mb, r, type)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Repeats, squeezes and reorders a block; *peak as the budget is compared with. */
bool orr_v_develop(v_candidate *c, orr_arena *work, uint8_t (*block)[V_TYPES], uint32_t m,
                   uint32_t budget, uint32_t *peak) {
    uint32_t pp = c->rows.pp, many = orr_max_u32(m, 2 * pp);
    c->m = many;
    c->rows.length = V_PERIOD * (4 * pp + many + 1);
    orr_v_repeat(&c->rows, block, many);
    uint32_t first = *peak = peak_of(c);
    if ((m == many && first > budget) || first > 2 * pp) {
        return false;
    }
    if (!squeeze(c, work) || !reorder_warm_up(c) || !squeeze(c, work)) {
        return false;
    }
    if (peak_of(c) > first) {
        return false;
    }
    if (m < many) {
        *peak = peak_of(c);
        drop_redundant(c, m);
        if (m <= pp && 2 * m <= budget && !put_off_w(c, orr_min_u32(2 * pp, *peak))) {
            return false;
        }
        if (!squeeze(c, work)) {
            return false;
        }
        first = *peak = peak_of(c);
        if (first > budget) {
            return false;
        }
    }
    if (!reorder_cool_down(c, work) || !fill_bubbles(c, work) || !relabel_w(c, work)) {
        return false;
    }
    uint32_t last = peak_of(c);
    *peak = last > first ? first : last;
    return last <= first && is_correct(c, work);
}
