/* Whether a launcher started this process as one of several that share a search. */
#include <string.h>

#include "api/api.h"
#include "api/tune_ranks.h"
#include "base/err.h"
#include "base/os_host.h"
#include "base/os_run.h"
#include "base/text.h"

/* How many processes the launcher started: mpirun of Open MPI, of MPICH and its kin, srun. */
static bool are_several(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = orr_os_env(names[i]);
        int64_t count = 0;
        if (value != NULL && orr_parse_int(value, &count) && count > 1) {
            return true;
        }
    }
    return false;
}

orr_status orr_tune_ranks_open(orr_arena *arena, orr_tune_ranks *out, orr_err *err) {
    void *symbol = NULL;
    orr_ranks_entry_fn entry = NULL;
    *out = (orr_tune_ranks){.count = 1};
    if (!are_several()) {
        return ORR_OK;
    }
    orr_status status = orr_os_module(arena, "orrery-mpi.so", ORR_RANKS_ENTRY, &symbol, err);
    if (status != ORR_OK) {
        orr_hint(err, "several processes were started, and this build has no MPI to join them: "
                      "build it with Open MPI (scripts/deps full), or start one with --threads");
        return status;
    }
    memcpy(&entry, &symbol, sizeof entry); /* POSIX: a symbol may be a function */
    const orr_ranks *table = entry();
    if (table == NULL || table->abi != ORR_RANKS_ABI) {
        return orr_fail(err, ORR_E_CONFLICT, "orrery-mpi.so is of another version");
    }
    if (table->open(&out->self, &out->rank, &out->count) != 0) {
        return orr_fail(err, ORR_E_IO, "MPI does not start");
    }
    out->table = table;
    return ORR_OK;
}

void orr_tune_ranks_close(orr_tune_ranks *ranks) {
    if (ranks->table != NULL) {
        ranks->table->close(ranks->self);
        ranks->table = NULL;
    }
}
