/* Ranks that share one search: processes that a launcher started, each told its number.
 *
 * Like a back end it is one table of functions in a shared object ("orrery-mpi.so") that is loaded
 * when a launcher started several processes, and exports
 *
 *     const orr_ranks *orr_ranks_entry(void);
 *
 * The host compares `abi`, which must be equal. Everything is called from one thread. Functions
 * return 0 when all is well; else the other ranks are gone. */
#ifndef ORRERY_RANKS_H
#define ORRERY_RANKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORR_RANKS_ABI 1u
#define ORR_RANKS_ENTRY "orr_ranks_entry"

typedef struct orr_ranks {
    uint32_t abi; /* ORR_RANKS_ABI */
    const char *name;
    int (*open)(void **self, uint32_t *rank, uint32_t *count);
    /* How many bytes each rank has to give: each[count]. All ranks call it. */
    int (*sizes)(void *self, size_t own_bytes, size_t *each);
    /* Every rank gets what all of them give, in the order of ranks. `each` as above; together less
     * than 2 GiB. */
    int (*gather)(void *self, const void *own, const size_t *each, void *all);
    void (*close)(void *self);
} orr_ranks;

typedef const orr_ranks *(*orr_ranks_entry_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
