/* Three plans to measure: those that are most likely to hold the truly fastest one that runs.
 *
 * Errors of two projections are one error as far as they spend their time on the same things. What
 * a class of work is off by, relatively, is drawn once for all plans; how much a plan suffers
 * depends on the share of its step that the class takes. On top each plan has an error of its own,
 * what scaling a measured run leaves. The three that win most draws together are the finalists. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "tune/tune_int.h"

enum { DRAWS = 4096 };

static double normal(orr_rng *rng) {
    double u = 1 - orr_rng_unit(rng), v = orr_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void tune_win_chances(const orr_projection *plan, const double *plan_cost, const bool *sure,
                      uint32_t count, double *chance) {
    static const double sd_of_90 = 1.0 / ORR_HALF_90_SD;
    orr_rng rng = {20251};
    for (uint32_t i = 0; i < count; i++) {
        chance[i] = 0;
    }
    for (int d = 0; d < DRAWS && count > 0; d++) {
        double error[ORR_SLICE_COUNT], best = HUGE_VAL;
        uint32_t winner = count;
        double memory = orr_rng_unit(&rng); /* one error of memory, too: the fullest fail first */
        for (int s = 0; s < ORR_SLICE_COUNT; s++) {
            error[s] = normal(&rng);
        }
        for (uint32_t i = 0; i < count; i++) {
            const orr_projection *p = &plan[i];
            double half = 0.5 * log(p->high / p->low) * sd_of_90, shift = 0;
            double own = p->resolved->software->interval_anchored_frac * sd_of_90;
            for (int s = 0; s < ORR_SLICE_COUNT; s++) {
                shift += half * error[s] * p->slice_s[s] / p->step_s;
            }
            double draw = normal(&rng); /* drawn in any case: the others' stay what they were */
            double cost = log(plan_cost[i]) + (sure[i] ? 0 : shift + own * draw);
            bool runs = sure[i] || memory >= p->memory.p_oom;
            if (runs && cost < best) {
                best = cost;
                winner = i;
            }
        }
        if (winner < count) {
            chance[winner] += 1.0 / DRAWS;
        }
    }
}
