/* Which steps of a log count, and what they say together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "observe/observe_int.h"

static const double mad_to_deviation = 1.4826, stall_deviations = 3, least_deviation = 0.01;
enum { MOST_WARMUP = 10, LEAST_LEFT = 3 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a copy; 0 of nothing. */
static double median(double *value, size_t count) {
    if (count == 0) {
        return 0;
    }
    qsort(value, count, sizeof *value, compare);
    return 0.5 * (value[(count - 1) / 2] + value[count / 2]);
}

static size_t warmup_of(size_t count) {
    size_t fifth = (count + 4) / 5;
    size_t warmup = fifth < 1 ? 1 : fifth > MOST_WARMUP ? MOST_WARMUP : fifth;
    return count >= warmup + LEAST_LEFT ? warmup : 0;
}

static double median_figure(double *room, const log_step *step, const bool *kept, size_t count,
                            log_figure figure) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept[i] && step[i].figure[figure] > 0) {
            room[n++] = step[i].figure[figure];
        }
    }
    return median(room, n);
}

void orr_log_settle(orr_arena *arena, const log_step *step, size_t count, orr_run_log *out) {
    if (count == 0) {
        return;
    }
    size_t warmup = warmup_of(count), left = count - warmup;
    double *room = ORR_NEW_ARRAY(arena, double, count);
    bool *kept = ORR_NEW_ARRAY(arena, bool, count);
    for (size_t i = 0; i < left; i++) {
        room[i] = step[warmup + i].pace;
    }
    double middle = median(room, left);
    for (size_t i = 0; i < left; i++) {
        room[i] = fabs(step[warmup + i].pace - middle);
    }
    double deviation = orr_max_f64(mad_to_deviation * median(room, left), least_deviation * middle);
    double all = 0, lost = 0;
    for (size_t i = warmup; i < count; i++) {
        double off = step[i].pace - middle;
        kept[i] = fabs(off) <= stall_deviations * deviation;
        all += step[i].pace;
        lost += kept[i] ? 0 : orr_max_f64(off, 0);
        out->used += kept[i];
    }
    out->seen = (uint32_t)count;
    out->warmup = (uint32_t)warmup;
    out->stalls = (uint32_t)left - out->used;
    out->stall_frac = all > 0 ? lost / all : 0;
    for (size_t i = 0; i < left; i++) {
        room[i] = fabs(step[warmup + i].pace - middle);
    }
    out->spread_frac = middle > 0 ? mad_to_deviation * median(room, left) / middle : 0;
    out->step_s = median_figure(room, step, kept, count, FIG_STEP_S);
    out->tokens_per_s_per_gpu = median_figure(room, step, kept, count, FIG_TOK_GPU);
    out->tokens_per_s = median_figure(room, step, kept, count, FIG_TOK);
    out->samples_per_s = median_figure(room, step, kept, count, FIG_SAMPLES);
    out->tflops_per_gpu = median_figure(room, step, kept, count, FIG_TFLOPS);
}
