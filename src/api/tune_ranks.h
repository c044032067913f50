/* Ranks of a search, from whatever launcher started them. */
#ifndef ORR_API_TUNE_RANKS_H
#define ORR_API_TUNE_RANKS_H

#include "tune/tune.h"

/* One rank where no launcher started several; else the module that joins them is loaded. ORR_E_IO
 * when it is not there or they cannot be joined. */
orr_status orr_tune_ranks_open(orr_arena *arena, orr_tune_ranks *out, orr_err *err);
void orr_tune_ranks_close(orr_tune_ranks *ranks);

#endif
