#include "agent/planner.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/rng.h"

/* What measurements say: a weight of each world, and Gaussian errors around its means. */
typedef struct posterior {
    double weight[ORR_PLANNER_WORLDS];
    double mean[ORR_PLANNER_WORLDS][ORR_PLANNER_MAX];
    double variance[ORR_PLANNER_MAX]; /* the same in every world */
} posterior;

/* Knots and weights of a Gaussian integral of three points. */
static const double knot[3] = {-1.7320508075688772, 0, 1.7320508075688772};
static const double knot_weight[3] = {1.0 / 6, 2.0 / 3, 1.0 / 6};

/* ---- Gaussian conditioning ------------------------------------------------------------------ */

/* Covariance of the measured candidates, its Cholesky factor in place. */
typedef struct observed {
    uint32_t n, of[ORR_PLANNER_MAX];
    double factor[ORR_PLANNER_MAX][ORR_PLANNER_MAX];
} observed;

static double covariance(const orr_planner *p, uint32_t a, uint32_t b) {
    double shared = p->shared_frac * p->shared_frac, own = p->residual_frac * p->residual_frac;
    return shared + (a == b ? own : 0);
}

static void factorize(const orr_planner *p, observed *o) {
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = covariance(p, o->of[i], o->of[j]);
            sum += i == j ? p->noise_frac * p->noise_frac : 0;
            for (uint32_t k = 0; k < j; k++) {
                sum -= o->factor[i][k] * o->factor[j][k];
            }
            o->factor[i][j] = i == j ? sqrt(orr_max_f64(sum, 1e-12)) : sum / o->factor[j][j];
        }
    }
}

/* Solves L x = b in place. */
static void forward(const observed *o, double *x) {
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            x[i] -= o->factor[i][k] * x[k];
        }
        x[i] /= o->factor[i][i];
    }
}

static void normalize(double *log_weight, uint32_t n) {
    double most = log_weight[0], sum = 0;
    for (uint32_t i = 1; i < n; i++) {
        most = orr_max_f64(most, log_weight[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        log_weight[i] = exp(log_weight[i] - most);
        sum += log_weight[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        log_weight[i] /= sum;
    }
}

/* Everything that follows from `seen` of the candidates of `o`. */
static void condition(const orr_planner *p, observed *o, const double *seen, posterior *out) {
    double gain[ORR_PLANNER_MAX][ORR_PLANNER_MAX];
    factorize(p, o);
    for (uint32_t c = 0; c < p->count; c++) {
        double half[ORR_PLANNER_MAX] = {0};
        for (uint32_t i = 0; i < o->n; i++) {
            half[i] = covariance(p, c, o->of[i]);
        }
        forward(o, half);
        out->variance[c] = covariance(p, c, c);
        for (uint32_t i = 0; i < o->n; i++) {
            gain[c][i] = half[i];
            out->variance[c] -= half[i] * half[i];
        }
    }
    for (uint32_t w = 0; w < ORR_PLANNER_WORLDS; w++) {
        double surprise[ORR_PLANNER_MAX] = {0}, square = 0;
        for (uint32_t i = 0; i < o->n; i++) {
            surprise[i] = seen[o->of[i]] - p->mean[w][o->of[i]];
        }
        forward(o, surprise);
        for (uint32_t i = 0; i < o->n; i++) {
            square += surprise[i] * surprise[i];
        }
        out->weight[w] = -0.5 * square;
        for (uint32_t c = 0; c < p->count; c++) {
            out->mean[w][c] = p->mean[w][c];
            for (uint32_t i = 0; i < o->n; i++) {
                out->mean[w][c] += gain[c][i] * surprise[i];
            }
        }
    }
    normalize(out->weight, ORR_PLANNER_WORLDS);
}

static observed measured_so_far(const orr_planner *p) {
    observed o;
    memset(&o, 0, sizeof o);
    for (uint32_t c = 0; c < p->count; c++) {
        if (p->measured[c] && !p->failed[c]) {
            o.of[o.n++] = c;
        }
    }
    return o;
}

/* ---- decision ------------------------------------------------------------------------------- */

static double chance_to_run(const orr_planner *p, uint32_t c) {
    return p->failed[c] ? 0 : p->measured[c] ? 1 : 1 - p->plan[c].p_oom;
}

/* Tokens of a step and GPU: throughput is this by step time. */
static double tokens(const orr_planner *p, uint32_t c) {
    return p->plan[c].tokens_per_s_per_gpu * p->plan[c].step_s;
}

/* Expected throughput of every candidate; returns the largest. */
static double expect(const orr_planner *p, const posterior *post, double *out, uint32_t *best) {
    double most = -1;
    for (uint32_t c = 0; c < p->count; c++) {
        double sum = 0;
        for (uint32_t w = 0; w < ORR_PLANNER_WORLDS; w++) {
            sum += post->weight[w] * exp(-post->mean[w][c]);
        }
        out[c] = chance_to_run(p, c) * tokens(p, c) * sum * exp(0.5 * post->variance[c]);
        if (out[c] > most) {
            most = out[c];
            *best = c;
        }
    }
    return most;
}

/* ---- value of a measurement ----------------------------------------------------------------- */

/* Outcomes of measuring one or two candidates, one after the other. */
typedef struct lookahead {
    const orr_planner *then; /* with those candidates measured */
    uint32_t best;           /* today's choice */
    uint32_t count, of[2];
    observed so_far;
    double seen[ORR_PLANNER_MAX];
} lookahead;

/* What choosing again is worth, averaged over the outcomes that world w makes likely: the largest
 * expected throughput then, less that of today's best. */
static double gain_in_world(lookahead *look, const posterior *now, uint32_t w, uint32_t level) {
    const orr_planner *p = look->then;
    posterior after;
    double expected[ORR_PLANNER_MAX], sum = 0;
    uint32_t best = 0, j = look->of[level];
    double spread = sqrt(now->variance[j] + p->noise_frac * p->noise_frac);
    look->so_far.of[look->so_far.n++] = j;
    for (int k = 0; k < 3; k++) {
        look->seen[j] = now->mean[w][j] + knot[k] * spread;
        condition(p, &look->so_far, look->seen, &after);
        sum += knot_weight[k] * (level + 1 < look->count
                                     ? gain_in_world(look, &after, w, level + 1)
                                     : expect(p, &after, expected, &best) - expected[look->best]);
    }
    look->so_far.n--;
    return sum;
}

/* Light worlds stand for their neighbours. */
static double value_of(const orr_planner *p, const posterior *now, uint32_t best, uint32_t j,
                       uint32_t second) {
    uint32_t count = second == UINT32_MAX ? 1 : 2, stride = count == 1 ? 3 : 5, then_best = 0;
    double expected[ORR_PLANNER_MAX], sum = 0, total = 0;
    orr_planner then = *p;
    lookahead look = {.then = &then, .best = best, .count = count, .of = {j, second}};
    look.so_far = measured_so_far(p);
    memcpy(look.seen, p->seen, sizeof look.seen);
    for (uint32_t i = 0; i < count; i++) {
        then.measured[look.of[i]] = true;
    }
    for (uint32_t w = 0; w < ORR_PLANNER_WORLDS; w++) {
        bool light = now->weight[w] * ORR_PLANNER_WORLDS < 4;
        if (now->weight[w] > 0 && (!light || w % stride == 0)) {
            double weight = now->weight[w] * (light ? stride : 1);
            sum += weight * gain_in_world(&look, now, w, 0);
            total += weight;
        }
    }
    double runs = total > 0 ? sum / total : 0, p_oom = p->plan[j].p_oom;
    if (p_oom <= 0) {
        return runs;
    }
    then = *p;
    then.measured[j] = then.failed[j] = true;
    double fails = expect(&then, now, expected, &then_best) - expected[best];
    return (1 - p_oom) * runs + p_oom * fails;
}

static void take_if_better(orr_planner_choice *choice, uint32_t candidate, double gain_frac,
                           double cost_s) {
    static const double least_gain_frac = 1e-4;
    double per_s = gain_frac / cost_s;
    if (gain_frac > least_gain_frac && per_s > choice->per_s) {
        *choice = (orr_planner_choice){candidate, gain_frac, per_s, cost_s};
    }
}

/* One measurement may tell nothing while the error that all plans share hides it: then today's best
 * and a second one are worth more together than either. */
orr_planner_choice orr_planner_next(const orr_planner *planner, double within_s) {
    orr_planner_choice choice = {.candidate = UINT32_MAX};
    posterior now;
    double expected[ORR_PLANNER_MAX];
    uint32_t best = 0;
    observed o = measured_so_far(planner);
    if (planner->count == 0) {
        return choice;
    }
    condition(planner, &o, planner->seen, &now);
    double most = expect(planner, &now, expected, &best), best_s = planner->cost_s[best];
    for (uint32_t c = 0; c < planner->count && most > 0; c++) {
        double cost_s = planner->cost_s[c];
        if (planner->measured[c] || (within_s > 0 && cost_s > within_s)) {
            continue;
        }
        take_if_better(&choice, c, value_of(planner, &now, best, c, UINT32_MAX) / most, cost_s);
        bool pair = c != best && !planner->measured[best];
        if (pair && (within_s <= 0 || cost_s + best_s <= within_s)) {
            take_if_better(&choice, best, value_of(planner, &now, best, best, c) / most,
                           best_s + cost_s);
        }
    }
    if (choice.candidate != UINT32_MAX) {
        choice.cost_s = planner->cost_s[choice.candidate];
    }
    return choice;
}

void orr_planner_observe(orr_planner *planner, uint32_t candidate, double tokens_per_s_per_gpu) {
    planner->measured[candidate] = true;
    planner->failed[candidate] = !(tokens_per_s_per_gpu > 0);
    if (!planner->failed[candidate]) {
        planner->seen[candidate] = log(tokens(planner, candidate) / tokens_per_s_per_gpu);
    }
}

void orr_planner_look(const orr_planner *planner, orr_planner_view *out) {
    posterior now;
    observed o = measured_so_far(planner);
    memset(out, 0, sizeof *out);
    if (planner->count == 0) {
        return;
    }
    condition(planner, &o, planner->seen, &now);
    (void)expect(planner, &now, out->expected, &out->best);
    double regret = 0;
    for (uint32_t w = 0; w < ORR_PLANNER_WORLDS; w++) {
        double most = 0, own = 0;
        uint32_t winner = 0;
        for (uint32_t c = 0; c < planner->count; c++) {
            double u = chance_to_run(planner, c) * tokens(planner, c) * exp(-now.mean[w][c]);
            winner = u > most ? c : winner;
            most = orr_max_f64(most, u);
            own = c == out->best ? u : own;
        }
        out->p_best[winner] += now.weight[w];
        regret += most > 0 ? now.weight[w] * (1 - own / most) : 0;
        for (uint32_t d = 0; d < planner->doubt_count; d++) {
            out->belief[d] += now.weight[w] * planner->strength[w][d];
        }
    }
    out->regret_frac = regret;
}

/* ---- report --------------------------------------------------------------------------------- */

orr_tree *orr_planner_write(orr_arena *arena, const orr_planner *planner) {
    orr_planner_view view;
    orr_planner_look(planner, &view);
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree *rows = orr_tree_put(arena, out, "candidates", orr_tree_new_list(arena));
    for (uint32_t c = 0; c < planner->count; c++) {
        orr_tree *row = orr_tree_push(arena, rows, orr_tree_new_map(arena));
        orr_tree_put_text(arena, row, "id", planner->plan[c].id);
        (void)orr_tree_put(arena, row, "plan", orr_tree_copy(arena, planner->overrides[c]));
        orr_tree_put_real(arena, row, "projected", planner->plan[c].tokens_per_s_per_gpu);
        orr_tree_put_real(arena, row, "expected", view.expected[c]);
        orr_tree_put_real(arena, row, "p_best", view.p_best[c]);
        orr_tree_put_real(arena, row, "measure_s", planner->cost_s[c]);
        if (planner->measured[c]) {
            orr_tree_put_real(arena, row, "measured",
                              planner->failed[c] ? 0 : tokens(planner, c) / exp(planner->seen[c]));
        }
    }
    orr_tree *doubts = orr_tree_put(arena, out, "doubts", orr_tree_new_list(arena));
    for (uint32_t d = 0; d < planner->doubt_count; d++) {
        orr_tree *row = orr_tree_push(arena, doubts, orr_tree_new_map(arena));
        orr_tree_put_text(arena, row, "name", planner->doubt_name[d]);
        orr_tree_put_text(arena, row, "says", planner->doubt_says[d]);
        if (planner->chance[d] > 0) {
            orr_tree_put_real(arena, row, "chance", planner->chance[d]);
        }
        orr_tree_put_real(arena, row, planner->chance[d] > 0 ? "belief" : "strength",
                          view.belief[d]);
    }
    orr_tree_put_int(arena, out, "best", view.best);
    orr_tree_put_real(arena, out, "expected_regret_frac", view.regret_frac);
    return out;
}
