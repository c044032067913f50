/* Steps of a compiled order under construction: in topological order, cut into parts, the periodic
 * ones stored once. Shared by the two compilers. */
#ifndef ORR_SCHEDULE_STEPS_H
#define ORR_SCHEDULE_STEPS_H

#include "schedule/schedule_int.h"

enum { MAX_SEGMENTS = 4 };

/* A repeated part and the equal blocks just before it. */
typedef struct segment {
    uint32_t part;
    uint32_t id_first, id_end; /* ids of the first block and just after the last one */
    uint32_t micro_batches;    /* of a block */
} segment;

typedef struct step_list {
    orr_arena *arena; /* of the result */
    orr_step *step;
    uint32_t steps, capacity;
    uint32_t next_id; /* ids count steps as if all were played, from 1 */
    orr_part *part;
    uint32_t parts;
    segment segment[MAX_SEGMENTS];
    uint32_t segments;
} step_list;

/* `likely`: steps to make room for; more is possible. */
void orr_steps_begin(step_list *list, orr_arena *arena, uint32_t likely);
void orr_steps_grow(step_list *list);
/* A step that looks back past a segment narrows how that segment may be cut. */
void orr_steps_widen(step_list *list, uint32_t ref_id);

/* end = max(end(a) + hop(lag_a), end(b) + hop(lag_b)) + duration; ids 0 are time zero. */
static inline uint32_t orr_steps_put(step_list *l, uint32_t a, uint16_t lag_a, uint32_t b,
                                     uint16_t lag_b, uint32_t duration) {
    if (l->steps == l->capacity) {
        orr_steps_grow(l);
    }
    uint32_t id = l->next_id++;
    l->step[l->steps++] = (orr_step){id - a, id - b, duration, lag_a, lag_b};
    if (l->segments != 0) {
        orr_steps_widen(l, a);
        orr_steps_widen(l, b);
    }
    return id;
}

void orr_steps_begin_part(step_list *list);
void orr_steps_end_part(step_list *list); /* an empty one is dropped */
/* Makes the steps since `first` a part that is repeated, after `lead` equal blocks; ids of the
 * repetitions are counted. Begins the part after it. */
void orr_steps_repeat(step_list *list, uint32_t first, uint32_t repeat, uint32_t window,
                      uint32_t lead, uint32_t micro_batches);

/* Where ends are picked up; ids and classes of the steps. */
orr_probe orr_steps_first(step_list *list, uint32_t id, uint32_t duration);
orr_probe orr_steps_last(step_list *list, uint32_t id, uint32_t duration);

/* Once the probes are set: repeats the periodic part for the micro-batches the order leaves out,
 * and fills in the rest. ORR_E_INTERNAL when there is no such part. */
orr_status orr_steps_finish(step_list *list, const orr_order *order, orr_compiled *out,
                            orr_err *err);

#endif
