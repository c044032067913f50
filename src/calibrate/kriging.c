#include "calibrate/kriging.h"

#include <math.h>

#include "base/cholesky.h"
#include "base/num.h"

static double covariance(const orr_kriging *k, double octaves, bool same, double alike) {
    double far = fabs(octaves), s = far / k->smooth_octaves;
    double sum = alike * (k->smooth * k->smooth * exp(-0.5 * s * s) +
                          k->rough * k->rough * exp(-far / k->rough_octaves));
    if (same) {
        sum += k->own * k->own * exp(-far / k->own_octaves) + k->level * k->level;
    }
    return sum;
}

static void size_table(orr_arena *arena, const orr_krige_row *row, size_t count,
                       orr_surface_level *level) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = orr_min_f64(low, row[i].octaves);
        high = orr_max_f64(high, row[i].octaves);
    }
    double first = floor(2 * low);
    level->step[0] = 1;
    level->low[0] = (int32_t)first;
    level->extent[0] = (uint32_t)(ceil(2 * high) - first) + 1;
    level->cell = ORR_NEW_ARRAY(arena, float, level->extent[0]);
}

void orr_krige(orr_arena *arena, const orr_kriging *plan, const orr_krige_row *row, size_t count,
               uint32_t own, double (*alike)(const void *user, uint32_t a, uint32_t b),
               const void *user, orr_surface *out) {
    *out = (orr_surface){.dims = 1};
    size_t n = orr_min_u64(count, ORR_KRIGE_MOST_ROWS);
    if (n == 0) {
        return;
    }
    orr_arena *scratch = orr_arena_new();
    double *a = ORR_NEW_ARRAY(scratch, double, n *n);
    double *weight = ORR_NEW_ARRAY(scratch, double, n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            bool same = row[i].set == row[j].set;
            a[i * n + j] = covariance(plan, row[i].octaves - row[j].octaves, same,
                                      alike(user, row[i].set, row[j].set));
        }
        a[i * n + i] += plan->noise * plan->noise;
        weight[i] = row[i].residual;
    }
    orr_cholesky(a, n);
    orr_cholesky_forward(a, n, weight);
    orr_cholesky_back(a, n, weight);
    orr_surface_level *level = &out->level[out->levels++];
    size_table(arena, row, n, level);
    for (uint32_t c = 0; c < level->extent[0]; c++) {
        double octaves = 0.5 * ((double)level->low[0] + c), sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += weight[i] * covariance(plan, octaves - row[i].octaves, row[i].set == own,
                                          alike(user, row[i].set, own));
        }
        /* as a file will hold it */
        level->cell[c] = (float)(floor(sum * ORR_SURFACE_UNIT + 0.5) / ORR_SURFACE_UNIT);
    }
    orr_arena_free(scratch);
}
