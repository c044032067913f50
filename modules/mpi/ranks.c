/* Ranks over MPI: whatever launcher starts MPI programs starts a search on many machines. */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include "orrery/ranks.h"

typedef struct group {
    int rank, count;
    int *bytes, *offset; /* [count] */
    int own_mpi;         /* started here, ended here */
} group;

static void drop(group *self) {
    free(self->bytes);
    free(self->offset);
    free(self);
}

static int open_group(void **out, uint32_t *rank, uint32_t *count) {
    group *self = (group *)calloc(1, sizeof *self);
    int running = 0;
    if (self == NULL) {
        return 1;
    }
    (void)MPI_Initialized(&running);
    if (!running && MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        drop(self);
        return 1;
    }
    self->own_mpi = !running;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &self->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &self->count);
    self->bytes = (int *)calloc((size_t)self->count, sizeof *self->bytes);
    self->offset = (int *)calloc((size_t)self->count, sizeof *self->offset);
    if (self->bytes == NULL || self->offset == NULL) {
        drop(self);
        return 1;
    }
    *rank = (uint32_t)self->rank;
    *count = (uint32_t)self->count;
    *out = self;
    return 0;
}

static int sizes(void *user, size_t own_bytes, size_t *each) {
    const group *self = (const group *)user;
    unsigned long long own = own_bytes,
                       *all = (unsigned long long *)calloc((size_t)self->count, sizeof *all);
    if (all == NULL) {
        return 1;
    }
    int status = MPI_Allgather(&own, 1, MPI_UNSIGNED_LONG_LONG, all, 1, MPI_UNSIGNED_LONG_LONG,
                               MPI_COMM_WORLD);
    for (int r = 0; r < self->count; r++) {
        each[r] = (size_t)all[r];
    }
    free(all);
    return status != MPI_SUCCESS;
}

static int gather(void *user, const void *own, const size_t *each, void *all) {
    group *self = (group *)user;
    size_t sum = 0;
    for (int r = 0; r < self->count; r++) {
        if (each[r] > INT_MAX || sum > INT_MAX - each[r]) {
            return 1;
        }
        self->bytes[r] = (int)each[r];
        self->offset[r] = (int)sum;
        sum += each[r];
    }
    return MPI_Allgatherv(own, self->bytes[self->rank], MPI_BYTE, all, self->bytes, self->offset,
                          MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static void close_group(void *user) {
    group *self = (group *)user;
    if (self->own_mpi) {
        (void)MPI_Finalize();
    }
    drop(self);
}

static const orr_ranks table = {.abi = ORR_RANKS_ABI,
                                .name = "mpi",
                                .open = open_group,
                                .sizes = sizes,
                                .gather = gather,
                                .close = close_group};

__attribute__((visibility("default"))) const orr_ranks *orr_ranks_entry(void);
const orr_ranks *orr_ranks_entry(void) {
    return &table;
}
