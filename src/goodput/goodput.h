/* From the speed of a step to the days, energy and money of a training run: failures, checkpoints,
 * restarts, power, prices.
 *
 * Failures are a Poisson process of rate gpus/gpu_mtbf + hosts/host_mtbf. With a checkpoint of d
 * seconds after every t seconds of progress, a mean of M seconds between failures and r seconds
 * from a failure to the first new step, a run that needs S seconds without all that takes
 *     S/t * M * exp(r/M) * (exp((t + d)/M) - 1)
 * in the mean (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
 * dumps", FGCS 22, 2006), and the t that makes this least is his
 *     sqrt(2 d M) * (1 + sqrt(d/2M)/3 + d/18M) - d,   below 2M; else M
 * whose first term is Young's (CACM 17, 1974). Plain functions; no hardware is known here. */
#ifndef ORR_GOODPUT_H
#define ORR_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

/* What running an accelerator costs and how often it fails: a prices file (docs/goodput.md). 0
 * means not known, and what needs it is not told. */
typedef struct orr_prices {
    const char *name;
    const char *currency;      /* as the file says, "" without */
    double gpu_hour;           /* money an accelerator and hour */
    double kwh;                /* money a kilowatt-hour */
    double carbon_kg_per_kwh;  /* of CO2 */
    double gpu_w;              /* mean draw of an accelerator; 0: the data sheet's board power */
    double host_w;             /* of a host besides its accelerators */
    double pue;                /* of the building: 1 and above */
    double gpu_mtbf_s;         /* between failures that stop the run, one accelerator */
    double host_mtbf_s;        /* the same of a host, its accelerators left out */
    double restart_s;          /* from a failure to the first new step, reading included */
    double storage_Bps;        /* a host writes of a checkpoint while training waits */
    double checkpoint_s;       /* training waits for a checkpoint; 0: its bytes over storage_Bps */
    double checkpoint_every_s; /* of progress; 0: the best one */
    const orr_tree *sources;   /* map: field to where its figure was read; "" means assumed */
    const orr_tree *stated;    /* map of the fields that the caller's file states */
    const orr_tree *elsewhere; /* list of fields that it states of other accelerators only */
} orr_prices;

/* file: a map of the fields; NULL: the built-in assumptions alone, which also fill what it leaves
 * out. Where a figure is a map it goes by accelerator ({h100: 2.5, mi300x: 2}); `device` picks. */
orr_status orr_prices_read(orr_arena *arena, const orr_tree *file, const char *device,
                           orr_prices *out, orr_err *err);
/* A map, a path, or text that spells a map: as an option of the command line gives it. A text
 * that states nothing is an error. */
orr_status orr_prices_find(orr_arena *arena, const orr_tree *given, const char *device,
                           orr_prices *out, orr_err *err);
/* {name, value, unit, source} of each figure that counts, for results. */
orr_tree *orr_prices_write(orr_arena *arena, const orr_prices *prices);

/* A run to be judged. */
typedef struct orr_goodput_run {
    double tokens; /* to be trained on */
    uint32_t gpus, hosts;
    double tokens_per_s;                        /* of the whole run, while it runs */
    double low_tokens_per_s, high_tokens_per_s; /* its 90 % interval; 0: none */
    double step_s;           /* a checkpoint comes after whole steps; a run takes one at least */
    double checkpoint_bytes; /* of the whole run */
    double board_w;          /* data sheet, where prices state no draw */
} orr_goodput_run;

typedef struct orr_goodput {
    bool finishes;          /* false: failures come faster than progress; the rest is then 0 */
    double mtbf_s;          /* of the whole run; 0: failures are not counted */
    double checkpoint_s;    /* one, as training waits for it */
    double every_s;         /* of progress between two; 0: none are made */
    double young_s, daly_s; /* what the two formulas say */
    double goodput_frac;    /* progress over time */
    double ideal_s;         /* without failures and checkpoints */
    double train_s, low_s, high_s; /* mean, and 90 % interval by throughput and chance */
    double half_mtbf_s; /* train_s with failures twice as often; 0: it would not finish */
    double failures;    /* mean number */
    double lost_checkpoint_s, lost_rework_s, lost_restart_s; /* sum to train_s - ideal_s */
    double energy_J, power_w;
    double gpu_cost, energy_cost, cost; /* 0 where no price is known */
    double low_cost, high_cost;         /* as low_s and high_s */
    double carbon_kg;
    double cost_per_mtok; /* a million tokens */
    double tokens_per_J;
} orr_goodput;

void orr_goodput_find(const orr_prices *prices, const orr_goodput_run *run, orr_goodput *out);
double orr_goodput_young(double checkpoint_s, double mtbf_s);
double orr_goodput_daly(double checkpoint_s, double mtbf_s);
/* Time over progress with a checkpoint after every_s; infinite when failures win. */
double orr_goodput_slowdown(double every_s, double checkpoint_s, double restart_s, double mtbf_s);
/* As `result.training` of an envelope. */
orr_tree *orr_goodput_write(orr_arena *arena, const orr_prices *prices, const orr_goodput_run *run,
                            const orr_goodput *goodput);

#endif
