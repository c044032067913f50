/* Processes that share a search. Each does its part of a round and gets the others' parts, so that
 * all of them know the same at the end of a round, whoever found it. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

static orr_status gone(orr_err *err) {
    return orr_fail(err, ORR_E_IO, "another rank of the search is gone");
}

uint32_t tune_rank(const orr_tune_request *request) {
    return request->ranks == NULL ? 0 : request->ranks->rank;
}

uint32_t tune_rank_count(const orr_tune_request *request) {
    return request->ranks == NULL ? 1 : orr_max_u32(1, request->ranks->count);
}

/* *all is the caller's to release; offset has an entry more than ranks. */
static orr_status gather(const orr_tune_ranks *ranks, const void *own, size_t bytes, char **all,
                         size_t *offset, orr_err *err) {
    size_t *each = (size_t *)orr_alloc(ranks->count * sizeof *each);
    orr_status status = ranks->table->sizes(ranks->self, bytes, each) == 0 ? ORR_OK : gone(err);
    size_t sum = 0;
    for (uint32_t r = 0; r < ranks->count && status == ORR_OK; r++) {
        offset[r] = sum;
        sum += each[r];
    }
    if (status == ORR_OK) {
        offset[ranks->count] = sum;
        *all = (char *)orr_alloc(sum + 1);
        status = ranks->table->gather(ranks->self, own, each, *all) == 0 ? ORR_OK : gone(err);
    }
    orr_release(each);
    return status;
}

/* ---- whether to go on ------------------------------------------------------------------------ */

orr_status tune_ranks_agree(const orr_tune_request *request, uint32_t *flags, orr_err *err) {
    uint32_t count = tune_rank_count(request), all = 0;
    if (count == 1) {
        return ORR_OK;
    }
    char *said = NULL;
    size_t *offset = (size_t *)orr_alloc((count + 1) * sizeof *offset);
    orr_status status = gather(request->ranks, flags, sizeof *flags, &said, offset, err);
    for (uint32_t r = 0; r < count && status == ORR_OK; r++) {
        uint32_t one = 0;
        memcpy(&one, said + offset[r], sizeof one);
        all |= one;
    }
    *flags = all;
    orr_release(said);
    orr_release(offset);
    return status;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Blocks of `block` values, the last perhaps shorter: rank r computed block b for b % ranks == r.
 */
orr_status tune_ranks_spread(const orr_tune_request *request, double *value, uint32_t count,
                             uint32_t block, orr_err *err) {
    uint32_t ranks = tune_rank_count(request), own = tune_rank(request), sent = 0;
    if (ranks == 1) {
        return ORR_OK;
    }
    double *part = (double *)orr_alloc(count * sizeof *part + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (i / block % ranks == own) {
            part[sent++] = value[i];
        }
    }
    char *all = NULL;
    size_t *offset = (size_t *)orr_alloc((ranks + 1) * sizeof *offset);
    orr_status status = gather(request->ranks, part, sent * sizeof *part, &all, offset, err);
    for (uint32_t i = 0; i < count && status == ORR_OK; i++) {
        size_t at = (size_t)(i / block / ranks) * block + i % block;
        memcpy(&value[i], all + offset[i / block % ranks] + at * sizeof *value, sizeof *value);
    }
    orr_release(all);
    orr_release(offset);
    orr_release(part);
    return status;
}

/* ---- what was found -------------------------------------------------------------------------- */

enum { HEAD_BYTES = offsetof(tune_keep, top) };

/* The parts of a keep that are in use, one after the other; out: NULL only counts. */
size_t tune_keep_pack(const tune_keep *keep, char *out) {
    const struct {
        const void *from;
        size_t bytes;
    } part[] = {{keep, HEAD_BYTES},
                {keep->top, keep->top_count * sizeof *keep->top},
                {keep->front, keep->front_count * sizeof *keep->front},
                {keep->near, keep->near_count * sizeof *keep->near}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (out != NULL && part[i].bytes > 0) {
            memcpy(out + at, part[i].from, part[i].bytes);
        }
        at += part[i].bytes;
    }
    return at;
}

static bool take(const char **at, const char *end, void *to, size_t count, size_t bytes) {
    if ((size_t)(end - *at) / bytes < count) {
        return false;
    }
    if (count > 0) {
        memcpy(to, *at, count * bytes);
    }
    *at += count * bytes;
    return true;
}

/* Plans with a layout of their own refer to it by address. */
static void attach_layout(const tune_space *space, tune_found *found) {
    const tune_world *world = &space->world[found->world];
    found->plan.layout = NULL;
    for (uint32_t i = 0; i < world->layout_count; i++) {
        if (world->layout[i].layout_hash != 0 &&
            world->layout[i].layout_hash == found->plan.pipe.layout_hash) {
            found->plan.layout = world->layout_text[i];
        }
    }
}

static bool unpack(const tune_space *space, const char **at, const char *end, tune_keep *keep) {
    bool good = take(at, end, keep, 1, HEAD_BYTES) && keep->top_count <= TUNE_TOP &&
                keep->front_count <= TUNE_FRONT;
    uint32_t near_count = keep->near_count;
    keep->near = NULL;
    keep->near_count = keep->near_capacity = 0;
    good = good && take(at, end, keep->top, keep->top_count, sizeof *keep->top) &&
           take(at, end, keep->front, keep->front_count, sizeof *keep->front) &&
           (size_t)(end - *at) / sizeof *keep->near >= near_count;
    for (uint32_t i = 0; good && i < keep->top_count; i++) {
        good = keep->top[i].world < space->world_count;
    }
    for (uint32_t i = 0; good && i < keep->front_count; i++) {
        good = keep->front[i].world < space->world_count;
    }
    if (!good) {
        keep->top_count = keep->front_count = 0;
        return false;
    }
    keep->near_count = keep->near_capacity = near_count;
    keep->near = (double *)orr_alloc(near_count * sizeof *keep->near + 1);
    (void)take(at, end, keep->near, near_count, sizeof *keep->near);
    for (uint32_t i = 0; i < keep->top_count; i++) {
        attach_layout(space, &keep->top[i]);
    }
    for (uint32_t i = 0; i < keep->front_count; i++) {
        attach_layout(space, &keep->front[i]);
    }
    return true;
}

bool tune_keep_unpack(const tune_space *space, const char *bytes, size_t length, tune_keep *keep) {
    const char *at = bytes;
    tune_keep_release(keep);
    return unpack(space, &at, bytes + length, keep) && at == bytes + length;
}

/* Rank r searched unit[i] for i % count == r. */
orr_status tune_ranks_exchange(const tune_space *space, tune_keep *unit, uint32_t count,
                               orr_err *err) {
    const orr_tune_request *request = space->request;
    uint32_t ranks = tune_rank_count(request), own = tune_rank(request);
    size_t length = 0, at = 0;
    if (ranks == 1) {
        return ORR_OK;
    }
    for (uint32_t i = own; i < count; i += ranks) {
        length += tune_keep_pack(&unit[i], NULL);
    }
    char *part = (char *)orr_alloc(length + 1), *all = NULL;
    for (uint32_t i = own; i < count; i += ranks) {
        at += tune_keep_pack(&unit[i], part + at);
    }
    size_t *offset = (size_t *)orr_alloc((ranks + 1) * sizeof *offset);
    orr_status status = gather(request->ranks, part, length, &all, offset, err);
    for (uint32_t r = 0; r < ranks && status == ORR_OK; r++) {
        const char *from = all + offset[r], *end = all + offset[r + 1];
        for (uint32_t i = r; i < count && r != own && status == ORR_OK; i += ranks) {
            tune_keep_release(&unit[i]);
            status = unpack(space, &from, end, &unit[i])
                         ? ORR_OK
                         : orr_fail(err, ORR_E_CONFLICT, "ranks are of different builds");
        }
    }
    orr_release(all);
    orr_release(offset);
    orr_release(part);
    return status;
}

/* Bytes of the first rank, to all; those of the others are not looked at. */
orr_status tune_ranks_share(const orr_tune_request *request, orr_arena *arena, void **bytes,
                            size_t *length, orr_err *err) {
    uint32_t ranks = tune_rank_count(request);
    if (ranks == 1) {
        return ORR_OK;
    }
    char *all = NULL;
    size_t *offset = (size_t *)orr_alloc((ranks + 1) * sizeof *offset);
    bool first = tune_rank(request) == 0;
    orr_status status = gather(request->ranks, first && *bytes != NULL ? *bytes : "",
                               first ? *length : 0, &all, offset, err);
    if (status == ORR_OK && !first) {
        *length = offset[1];
        *bytes = *length > 0 ? orr_arena_alloc(arena, *length) : NULL;
        if (*length > 0) {
            memcpy(*bytes, all, *length);
        }
    }
    orr_release(all);
    orr_release(offset);
    return status;
}
