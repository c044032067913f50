#include "schedule/steps.h"

#include <string.h>

void orr_steps_begin(step_list *l, orr_arena *arena, uint32_t likely) {
    *l = (step_list){.arena = arena, .capacity = likely, .next_id = 1};
    l->step = ORR_NEW_ARRAY(arena, orr_step, likely);
    l->part = ORR_NEW_ARRAY(arena, orr_part, 2 * MAX_SEGMENTS + 1);
    orr_steps_begin_part(l);
}

void orr_steps_grow(step_list *l) {
    uint32_t capacity = 2 * l->capacity + 64;
    orr_step *step = ORR_NEW_ARRAY(l->arena, orr_step, capacity);
    if (l->steps != 0) {
        memcpy(step, l->step, l->steps * sizeof *step);
    }
    l->step = step;
    l->capacity = capacity;
}

void orr_steps_widen(step_list *l, uint32_t ref_id) {
    for (uint32_t i = 0; i < l->segments; i++) {
        const segment *s = &l->segment[i];
        orr_part *p = &l->part[s->part];
        if (ref_id < s->id_first) {
            p->window = 0;
        } else if (ref_id < s->id_end && p->window != 0) {
            p->window = orr_max_u32(p->window, (s->id_end - ref_id + p->count - 1) / p->count);
        }
    }
}

void orr_steps_begin_part(step_list *l) {
    l->part[l->parts++] = (orr_part){.first = l->steps, .repeat = 1, .id = l->next_id};
}

void orr_steps_end_part(step_list *l) {
    orr_part *p = &l->part[l->parts - 1];
    p->count = l->steps - p->first;
    if (p->count == 0) {
        l->parts--;
    }
}

void orr_steps_repeat(step_list *l, uint32_t first, uint32_t repeat, uint32_t window, uint32_t lead,
                      uint32_t micro_batches) {
    uint32_t count = l->steps - first, index;
    orr_part *before = &l->part[l->parts - 1];
    before->count = first - before->first;
    if (before->count != 0) {
        l->parts++;
    }
    index = l->parts - 1;
    l->part[index] = (orr_part){.first = first,
                                .count = count,
                                .repeat = repeat,
                                .id = l->next_id - count,
                                .window = window,
                                .lead = lead};
    uint32_t id_first = l->next_id - (1 + lead) * count;
    l->next_id += (repeat - 1) * count;
    l->segment[l->segments++] = (segment){index, id_first, l->next_id, micro_batches};
    orr_steps_begin_part(l);
}

/* ---- probes --------------------------------------------------------------------------------- */

static uint32_t part_of(const step_list *l, uint32_t id) {
    uint32_t p = l->parts - 1;
    while (l->part[p].id > id) {
        p--;
    }
    return p;
}

orr_probe orr_steps_first(step_list *l, uint32_t id, uint32_t duration) {
    uint32_t index = part_of(l, id);
    orr_part *p = &l->part[index];
    p->need = orr_max_u32(p->need, (id - p->id) / p->count + 1);
    return (orr_probe){index, id - p->id, duration};
}

orr_probe orr_steps_last(step_list *l, uint32_t id, uint32_t duration) {
    uint32_t index = part_of(l, id);
    orr_part *p = &l->part[index];
    uint32_t end = p->id + p->count * p->repeat;
    if (p->window != 0) {
        p->window = orr_max_u32(p->window, (end - id + p->count - 1) / p->count);
    }
    return (orr_probe){index, end - id, duration};
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Whether first uses lie before the end of a part and last ones after its start: then repeating it
 * more often moves the ones and not the others. */
static bool encloses(const orr_order *o, const orr_compiled *p, uint32_t part) {
    uint32_t pp = o->view.spec.pp, chunks = pp * o->view.spec.vpp;
    for (uint32_t r = 0; r < pp; r++) {
        if (p->rank_first[r].part > part || p->rank_last[r].part < part) {
            return false;
        }
    }
    for (uint32_t i = 0; i < chunks; i++) {
        if (p->first_use[i].part > part || p->grads[i].part < part) {
            return false;
        }
    }
    return true;
}

/* A period more of every rank's ops in the middle of the run is what the schedule makes of more
 * micro-batches; nothing before or after notices as long as what follows looks back no further than
 * the blocks there are. */
static bool extend(step_list *l, const orr_order *o, const orr_compiled *p) {
    const segment *s = &l->segment[0];
    uint32_t left_out = o->left_out / o->chains;
    if (l->segments != 1 || left_out % s->micro_batches != 0 || !encloses(o, p, s->part)) {
        return false;
    }
    orr_part *part = &l->part[s->part];
    if (part->window == 0 || part->window > part->lead + part->repeat ||
        part->need > part->repeat) {
        return false;
    }
    uint32_t more = left_out / s->micro_batches;
    part->repeat += more;
    l->next_id += more * part->count;
    for (uint32_t i = s->part + 1; i < l->parts; i++) {
        l->part[i].id += more * part->count;
    }
    return true;
}

/* How often each class of durations is played. */
static uint32_t *count_classes(const step_list *l, const orr_order *o) {
    size_t classes = 1 + 4 * (size_t)o->view.spec.pp * o->view.spec.vpp + o->pairs;
    uint32_t *count = ORR_NEW_ARRAY(l->arena, uint32_t, classes);
    for (uint32_t i = 0; i < l->parts; i++) {
        const orr_part *part = &l->part[i];
        for (uint32_t k = 0; k < part->count; k++) {
            count[l->step[part->first + k].duration] += part->repeat;
        }
    }
    return count;
}

orr_status orr_steps_finish(step_list *l, const orr_order *order, orr_compiled *out, orr_err *err) {
    if (order->left_out != 0 && !extend(l, order, out)) {
        return orr_fail(err, ORR_E_INTERNAL, "the run is too short to repeat");
    }
    out->step = l->step;
    out->part = l->part;
    out->parts = l->parts;
    out->total = l->next_id - 1;
    out->count = order->pairs == 0 ? NULL : count_classes(l, order);
    return ORR_OK;
}
