/* Objects and orders made so far, found again by the bytes of their keys. */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "program/link_int.h"

struct orr_linker {
    orr_arena *arena; /* of objects */
    orr_arena *order_arena;
    orr_map objects, orders;
    uint32_t generation; /* of the orders */
};

orr_linker *orr_linker_new(void) {
    orr_linker *linker = orr_alloc(sizeof *linker);
    linker->arena = orr_arena_new();
    linker->order_arena = orr_arena_new();
    return linker;
}

void orr_linker_free(orr_linker *linker) {
    if (linker == NULL) {
        return;
    }
    orr_map_release(&linker->objects);
    orr_map_release(&linker->orders);
    orr_arena_free(linker->arena);
    orr_arena_free(linker->order_arena);
    orr_release(linker);
}

orr_status orr_linker_object(orr_linker *linker, const orr_object_key *key, const orr_object **out,
                             orr_err *err) {
    const orr_object *known = orr_map_get(&linker->objects, key, sizeof *key);
    if (known == NULL) {
        orr_object *object = NULL;
        ORR_TRY(orr_lower(linker->arena, key, &object, err));
        orr_map_put(&linker->objects, linker->arena, key, sizeof *key, object);
        known = object;
    }
    *out = known;
    return ORR_OK;
}

bool orr_linker_trim_objects(orr_linker *linker, size_t most_bytes) {
    bool trims = orr_arena_used(linker->arena) > most_bytes;
    if (trims) {
        orr_map_release(&linker->objects);
        orr_arena_free(linker->arena);
        linker->arena = orr_arena_new();
    }
    return trims;
}

/* ---- orders --------------------------------------------------------------------------------- */

/* Orders that follow durations depend on their ratios alone: times are brought to this many steps
 * of the largest. Coarse enough that a search meets the same order again. */
static const int64_t RATIO_STEPS = 256;

static int64_t largest(const int64_t *times, size_t count) {
    int64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = times[i] > most ? times[i] : most;
    }
    return most;
}

static int64_t ratio(int64_t time, int64_t most) {
    if (most <= 0 || time <= 0) {
        return 0;
    }
    double steps = (double)time / (double)most * (double)RATIO_STEPS;
    return steps < 1 ? 1 : (int64_t)(steps + 0.5);
}

/* spec, then f, b, w of every chunk and hop of every rank, as ratios; unit times without `d`. */
static void *ratios_of(orr_arena *arena, const orr_schedule_spec *spec, const orr_durations *d,
                       size_t *key_bytes, orr_durations *times) {
    size_t chunks = (size_t)spec->pp * spec->vpp;
    size_t count = 3 * chunks + spec->pp;
    *key_bytes = sizeof *spec + count * sizeof(int64_t);
    char *key = orr_arena_alloc(arena, *key_bytes);
    int64_t *time = (int64_t *)orr_arena_array(arena, count, sizeof *time);
    int64_t *f = time, *b = f + chunks, *w = b + chunks, *hop = w + chunks;
    if (d == NULL) {
        for (size_t i = 0; i < 3 * chunks; i++) {
            time[i] = 1;
        }
    } else {
        int64_t most = orr_max_i64(largest(d->f, chunks), largest(d->b, chunks));
        for (size_t i = 0; i < chunks; i++) {
            f[i] = ratio(d->f[i], most);
            b[i] = ratio(d->b[i], most);
            w[i] = d->w != NULL ? ratio(d->w[i], most) : 0;
        }
        for (size_t i = 0; i < spec->pp && d->hop != NULL; i++) {
            hop[i] = ratio(d->hop[i], most);
        }
    }
    memcpy(key, spec, sizeof *spec);
    memcpy(key + sizeof *spec, time, count * sizeof *time);
    *times = (orr_durations){.f = f, .b = b, .w = w, .hop = hop};
    return key;
}

uint32_t orr_linker_trim(orr_linker *linker, size_t most_bytes) {
    if (orr_arena_used(linker->order_arena) > most_bytes) {
        orr_map_release(&linker->orders);
        orr_arena_free(linker->order_arena);
        linker->order_arena = orr_arena_new();
        linker->generation++;
    }
    return linker->generation;
}

orr_status orr_linker_order(orr_linker *linker, orr_arena *scratch, const orr_schedule_spec *spec,
                            const orr_durations *d, const orr_order **out, orr_err *err) {
    const void *key = spec;
    size_t key_bytes = sizeof *spec;
    orr_durations times = {0};
    bool timed = orr_schedule_needs_durations((orr_schedule_kind)spec->kind);
    if (timed) {
        key = ratios_of(scratch, spec, d, &key_bytes, &times);
    }
    void *known = orr_map_get(&linker->orders, key, key_bytes);
    if (known == NULL) {
        const orr_order **slot = ORR_NEW(linker->order_arena, const orr_order *);
        ORR_TRY(orr_order_build_brief(linker->order_arena, spec, timed ? &times : NULL, slot, err));
        orr_map_put(&linker->orders, linker->order_arena, key, key_bytes, slot);
        known = slot;
    }
    *out = *(const orr_order **)known;
    return ORR_OK;
}
