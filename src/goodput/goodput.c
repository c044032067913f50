/* The formulas; see goodput.h. */
#include "goodput/goodput.h"

#include <math.h>

#include "base/num.h"

static const double z90 = 1.6448536269514722;
/* Beyond this a run counts as never finishing. */
static const double worst_slowdown = 1000;

double orr_goodput_young(double checkpoint_s, double mtbf_s) {
    return sqrt(2 * checkpoint_s * mtbf_s);
}

double orr_goodput_daly(double checkpoint_s, double mtbf_s) {
    if (checkpoint_s >= 2 * mtbf_s) {
        return mtbf_s;
    }
    double ratio = checkpoint_s / (2 * mtbf_s);
    double every_s =
        orr_goodput_young(checkpoint_s, mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
    return orr_max_f64(every_s, 0);
}

double orr_goodput_slowdown(double every_s, double checkpoint_s, double restart_s, double mtbf_s) {
    if (!(every_s > 0)) {
        return mtbf_s > 0 ? INFINITY : 1;
    }
    if (!(mtbf_s > 0)) {
        return (every_s + checkpoint_s) / every_s;
    }
    return mtbf_s * exp(restart_s / mtbf_s) * expm1((every_s + checkpoint_s) / mtbf_s) / every_s;
}

static double rate_of(double units, double mtbf_s) {
    return mtbf_s > 0 ? units / mtbf_s : 0;
}

static double run_mtbf_s(const orr_prices *prices, const orr_goodput_run *run) {
    double rate = rate_of(run->gpus, prices->gpu_mtbf_s) + rate_of(run->hosts, prices->host_mtbf_s);
    return rate > 0 ? 1 / rate : 0;
}

static double checkpoint_time_s(const orr_prices *prices, const orr_goodput_run *run) {
    if (prices->checkpoint_s > 0 || !(prices->storage_Bps > 0)) {
        return prices->checkpoint_s;
    }
    return run->checkpoint_bytes / (prices->storage_Bps * orr_max_u32(1, run->hosts));
}

/* Progress between checkpoints: as stated, else the best; at least one step, at most the run. */
static double interval_s(const orr_prices *prices, const orr_goodput_run *run,
                         const orr_goodput *out) {
    double every_s = prices->checkpoint_every_s;
    if (!(every_s > 0)) {
        every_s = out->mtbf_s > 0 ? out->daly_s : 0;
    }
    if (!(every_s > 0) && !(out->mtbf_s > 0)) {
        return 0; /* nothing fails and nobody asks for checkpoints */
    }
    return orr_min_f64(orr_max_f64(every_s, run->step_s), out->ideal_s);
}

/* The interval of throughput, and chance in the number of failures and where they fall, are
 * independent: half-widths add as squares. */
static void set_spread(const orr_prices *prices, const orr_goodput_run *run, orr_goodput *out) {
    double span_s = out->every_s + out->checkpoint_s;
    double mean_s = 0.5 * span_s + prices->restart_s;
    double variance = out->failures * (mean_s * mean_s + span_s * span_s / 12);
    double chance = z90 * sqrt(variance) / out->train_s, below = 0, above = 0;
    if (run->low_tokens_per_s > 0 && run->high_tokens_per_s > 0) {
        below = orr_max_f64(0, 1 - run->tokens_per_s / run->high_tokens_per_s);
        above = orr_max_f64(0, run->tokens_per_s / run->low_tokens_per_s - 1);
    }
    out->low_s = out->train_s * orr_max_f64(0, 1 - sqrt(below * below + chance * chance));
    out->high_s = out->train_s * (1 + sqrt(above * above + chance * chance));
}

static void set_losses(const orr_prices *prices, orr_goodput *out) {
    double lost_s = out->train_s - out->ideal_s;
    out->lost_checkpoint_s = out->every_s > 0 ? out->ideal_s / out->every_s * out->checkpoint_s : 0;
    out->lost_checkpoint_s = orr_min_f64(out->lost_checkpoint_s, lost_s);
    out->lost_restart_s =
        orr_min_f64(out->failures * prices->restart_s, lost_s - out->lost_checkpoint_s);
    out->lost_rework_s = lost_s - out->lost_checkpoint_s - out->lost_restart_s;
}

static void set_bill(const orr_prices *prices, const orr_goodput_run *run, orr_goodput *out) {
    double board_w = prices->gpu_w > 0 ? prices->gpu_w : run->board_w;
    out->power_w = prices->pue * (run->gpus * board_w + run->hosts * prices->host_w);
    out->energy_J = board_w > 0 ? out->power_w * out->train_s : 0;
    double kwh = out->energy_J / 3.6e6;
    out->gpu_cost = prices->gpu_hour * run->gpus * out->train_s / 3600;
    out->energy_cost = prices->kwh * kwh;
    out->cost = out->gpu_cost + out->energy_cost;
    out->low_cost = out->cost * out->low_s / out->train_s;
    out->high_cost = out->cost * out->high_s / out->train_s;
    out->carbon_kg = prices->carbon_kg_per_kwh * kwh;
    out->cost_per_mtok = out->cost / (run->tokens / 1e6);
    out->tokens_per_J = out->energy_J > 0 ? run->tokens / out->energy_J : 0;
}

/* What checkpoints alone cost is not held against the run: a short one waits for its last. */
static double time_with(const orr_prices *prices, const orr_goodput *out, double mtbf_s) {
    if (!(out->every_s > 0) && !(mtbf_s > 0)) {
        return out->ideal_s;
    }
    double slowdown =
        orr_goodput_slowdown(out->every_s, out->checkpoint_s, prices->restart_s, mtbf_s);
    double unfailing = 1 + out->checkpoint_s / out->every_s;
    return slowdown < worst_slowdown * unfailing ? out->ideal_s * slowdown : 0;
}

void orr_goodput_find(const orr_prices *prices, const orr_goodput_run *run, orr_goodput *out) {
    *out = (orr_goodput){0};
    if (!(run->tokens > 0) || !(run->tokens_per_s > 0)) {
        return;
    }
    double mtbf_s = run_mtbf_s(prices, run);
    out->mtbf_s = mtbf_s;
    out->checkpoint_s = checkpoint_time_s(prices, run);
    out->ideal_s = orr_max_f64(run->tokens / run->tokens_per_s, run->step_s);
    if (mtbf_s > 0) {
        out->young_s = orr_goodput_young(out->checkpoint_s, mtbf_s);
        out->daly_s = orr_goodput_daly(out->checkpoint_s, mtbf_s);
    }
    out->every_s = interval_s(prices, run, out);
    out->train_s = time_with(prices, out, mtbf_s);
    if (!(out->train_s > 0)) {
        double ideal_s = out->ideal_s;
        *out = (orr_goodput){.mtbf_s = mtbf_s, .ideal_s = ideal_s};
        return;
    }
    out->finishes = true;
    out->goodput_frac = out->ideal_s / out->train_s;
    out->failures = mtbf_s > 0 ? out->train_s / mtbf_s : 0;
    out->half_mtbf_s = time_with(prices, out, 0.5 * mtbf_s);
    set_spread(prices, run, out);
    set_losses(prices, out);
    set_bill(prices, run, out);
}
