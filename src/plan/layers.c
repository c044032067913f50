/* Which layers stand in which chunk. Everything is decided per stage of the chain that a
 * micro-batch crosses, then dealt out to ranks. */
#include <string.h>

#include "base/mem.h"
#include "plan/plan_int.h"

enum { MAX_STAGES = ORR_MAX_LAYERS + 2 };

/* ---- costs ---------------------------------------------------------------------------------- */

/* Multiply-adds a token of a layer's weight matrices, in units of the hidden width. */
static double layer_width(const orr_layer *layer) {
    const orr_attention *a = &layer->attention;
    const orr_mlp *m = &layer->mlp;
    double heads = a->heads, width = 0;
    double q = heads * a->head_dim, v = heads * a->v_dim;
    if (a->kind == ORR_ATTENTION_MLA) {
        double per_hidden = layer->hidden > 0 ? 1.0 / layer->hidden : 0;
        double rest = heads * (a->head_dim - a->rope_dim + a->v_dim);
        width += a->q_lora > 0 ? a->q_lora * (1 + q * per_hidden) : q;
        width += a->kv_lora + a->rope_dim + a->kv_lora * rest * per_hidden + v;
    } else if (a->kind != ORR_ATTENTION_NONE) {
        width += q + (double)a->kv_heads * (a->head_dim + a->v_dim) + v;
    }
    double ffn = m->experts > 0 ? (double)m->topk * m->expert_ffn + m->shared_ffn : m->ffn;
    return width + (m->gated ? 3 : 2) * ffn + m->experts;
}

/* ---- the walk by cumulative cost (nanotron) ---------------------------------------------------
 */

static uint64_t walk_layer_cost(const orr_layer *layer) {
    const orr_mlp *m = &layer->mlp;
    uint64_t ffn = m->experts > 0 ? (uint64_t)m->topk * m->expert_ffn + m->shared_ffn : m->ffn;
    return 4 * (uint64_t)layer->hidden + (m->gated ? 3 : 2) * ffn;
}

typedef struct walker {
    uint64_t total, done;
    uint32_t stages, stage;
} walker;

/* The block goes onto the current stage, and only then the walk may advance. One that ends on the
 * threshold ends its stage: step times and memory of runs whose costs tie agree with that alone. */
static uint32_t walk_block(walker *w, uint64_t cost) {
    uint32_t here = w->stage;
    w->done += cost;
    if (w->stage + 1 < w->stages && w->done * w->stages >= w->total * (w->stage + 1)) {
        w->stage++;
    }
    return here;
}

/* Fills count ([stages], zeroed; or NULL) and returns the stage of the last block: those after it
 * hold nothing. Costs are in units of the hidden width, at most 2^40 for a layer within the limits
 * of a model, so that the products fit. */
static uint32_t walk_layers(const orr_model *model, uint32_t stages, uint32_t *count) {
    walker w = {.stages = stages, .total = model->vocab};
    for (uint32_t i = 0; i < model->layers; i++) {
        w.total += walk_layer_cost(&model->kind[model->layer_kind[i]]);
    }
    (void)walk_block(&w, 0); /* embedding */
    for (uint32_t i = 0; i < model->layers; i++) {
        uint32_t stage = walk_block(&w, walk_layer_cost(&model->kind[model->layer_kind[i]]));
        if (count != NULL) {
            count[stage]++;
        }
    }
    (void)walk_block(&w, 0);            /* norm */
    (void)walk_block(&w, model->vocab); /* head */
    (void)walk_block(&w, 0);            /* cast */
    return walk_block(&w, 0);           /* loss */
}

/* ---- min-max -------------------------------------------------------------------------------- */

enum { COST_ONE = 1 << 20 }; /* the largest layer */

typedef struct balance {
    uint32_t layers, stages;
    uint64_t tail;  /* head and MTP, on the last stage */
    uint32_t *cost; /* [layers] in COST_ONE */
} balance;

static void weigh(const orr_model *model, balance *b) {
    ORR_UNSET double kind_width[ORR_MAX_LAYER_KINDS];
    ORR_UNSET uint32_t kind_cost[ORR_MAX_LAYER_KINDS];
    double largest = 1;
    uint32_t kinds = orr_min_u32(model->kind_count, ORR_MAX_LAYER_KINDS);
    for (uint32_t k = 0; k < kinds; k++) {
        kind_width[k] = layer_width(&model->kind[k]);
        largest = orr_max_f64(largest, kind_width[k]);
    }
    for (uint32_t k = 0; k < kinds; k++) {
        kind_cost[k] = 1 + (uint32_t)(kind_width[k] / largest * (COST_ONE - 1));
    }
    for (uint32_t i = 0; i < b->layers; i++) {
        b->cost[i] = kind_cost[model->layer_kind[i]];
    }
    double last = b->layers == 0 ? 0 : kind_width[model->layer_kind[b->layers - 1]];
    double depth = last + 2.0 * model->hidden + model->vocab;
    double tail = (model->vocab + model->mtp_layers * depth) / largest * COST_ONE;
    b->tail = (uint64_t)orr_min_f64(tail, 0x1p60);
}

/* Whether no stage but an overloaded last one needs more than `most`. From the end, each stage
 * takes what it can; every stage but the last holds a layer. `edge`: where the answer may change.
 * If it is yes, it is so down to this; if it is no, the least `most` for which a stage takes more.
 */
static bool fits_under(const balance *b, uint64_t most, uint64_t *edge) {
    uint32_t stage = b->stages - 1;
    uint64_t load = b->tail, fullest = b->tail < most ? b->tail : 0, refused = UINT64_MAX;
    for (uint32_t left = b->layers; left > 0; left--) {
        uint64_t cost = b->cost[left - 1];
        if (left > stage && load + cost <= most) {
            load += cost;
        } else {
            refused = left > stage ? orr_min_u64(refused, load + cost) : refused;
            if (stage == 0 || cost > most) {
                *edge = orr_min_u64(refused, stage == 0 ? UINT64_MAX : cost);
                return false;
            }
            stage--;
            load = cost;
        }
        fullest = orr_max_u64(fullest, load);
    }
    *edge = fullest;
    return true;
}

static uint64_t smallest_most(const balance *b) {
    uint64_t high = b->tail;
    for (uint32_t i = 0; i < b->layers; i++) {
        high += b->cost[i];
    }
    uint64_t low = high / b->stages, most = low + COST_ONE;
    while (low < high) {
        uint64_t edge;
        if (fits_under(b, most, &edge)) {
            high = orr_max_u64(low, edge);
        } else {
            low = orr_min_u64(high, edge);
        }
        most = low + (high - low) / 2;
    }
    return high;
}

/* need[i]: stages that the first i layers take at least. */
static void count_needs(const balance *b, uint64_t most, uint16_t *need) {
    uint64_t load = most;
    need[0] = 0;
    for (uint32_t i = 0; i < b->layers; i++) {
        bool opens = load + b->cost[i] > most;
        need[i + 1] = (uint16_t)(need[i] + opens);
        load = (opens ? 0 : load) + b->cost[i];
    }
}

/* Among the splits that reach the smallest maximum, an even one: from the end, each stage takes its
 * share of what is left, to the nearest layer. */
static void balance_layers(const orr_model *model, uint32_t stages, uint32_t *count) {
    ORR_UNSET uint32_t costs[ORR_MAX_LAYERS];
    ORR_UNSET uint16_t need[ORR_MAX_LAYERS + 1];
    balance b = {.layers = model->layers, .stages = stages, .cost = costs};
    weigh(model, &b);
    uint64_t most = smallest_most(&b), cost_left = 0;
    count_needs(&b, most, need);
    for (uint32_t i = 0; i < b.layers; i++) {
        cost_left += b.cost[i];
    }
    uint32_t left = b.layers;
    for (uint32_t stage = stages; stage-- > 0;) {
        uint64_t load = stage == stages - 1 ? b.tail : 0;
        uint64_t share = (cost_left + load) / (stage + 1);
        bool may_be_bare = stage == stages - 1;
        while (left > stage) {
            uint64_t cost = b.cost[left - 1];
            bool must = need[left] > stage || (count[stage] == 0 && !may_be_bare);
            if (!must && (load + cost / 2 > share || load + cost > most)) {
                break;
            }
            load += cost;
            cost_left -= cost;
            left--;
            count[stage]++;
        }
    }
}

/* ---- counts as even as can be -----------------------------------------------------------------
 */

static void spread_layers(const orr_model *model, uint32_t stages, uint32_t *count) {
    uint32_t slots = model->layers + 2, each = slots / stages, more = slots % stages;
    for (uint32_t stage = 0; stage < stages; stage++) {
        count[stage] = each + (stage < more ? 1 : 0);
    }
    count[0]--;
    count[stages - 1]--;
}

/* ---- choosing and dealing out ---------------------------------------------------------------- */

placing orr_plan_placing(const orr_model *model, const orr_plan *plan, uint32_t *flags) {
    uint32_t stages = orr_max_u32(1, orr_plan_stages(plan));
    *flags = plan->pipe.split_flags;
    if (plan->layout != NULL) {
        return PLACING_LAYOUT;
    }
    if (*flags != ORR_SPLIT_EVEN) {
        return PLACING_SPLIT;
    }
    bool even = model->layers % stages == 0;
    bool slots = !even && (model->layers + 2) % stages == 0;
    uint32_t both = slots ? ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS : ORR_SPLIT_EVEN;
    switch (plan->pipe.placement) {
    case ORR_PLACE_SLOTS: *flags = both; return PLACING_SPLIT;
    case ORR_PLACE_COST_WALK: return PLACING_WALK;
    case ORR_PLACE_SPREAD: return PLACING_SPREAD;
    case ORR_PLACE_BALANCED:
        if (model->mtp_layers > 0 || !(even || slots)) {
            return PLACING_BALANCED;
        }
        *flags = both;
        return PLACING_SPLIT;
    default: return PLACING_SPLIT;
    }
}

static orr_split_spec split_of(const orr_model *model, const orr_plan *plan, uint32_t flags) {
    uint32_t stages = orr_plan_stages(plan);
    bool loop = plan->pipe.vpp == 1 || orr_plan_stage(plan, 0, 1, NULL) == plan->pipe.pp;
    return (orr_split_spec){
        .flags = flags,
        .layers = model->layers,
        .pp = loop ? plan->pipe.pp : stages,
        .vpp = loop ? plan->pipe.vpp : 1,
        .first = plan->pipe.first_layers,
        .last = plan->pipe.last_layers,
    };
}

/* The divisibilities of orr_split_layers, for rules that are asked millions of times. */
static bool split_fits(const orr_split_spec *s) {
    uint32_t stages = s->pp * s->vpp;
    if (stages == 0) {
        return false;
    }
    if ((s->flags & ORR_SPLIT_COUNTS) == 0) {
        uint32_t ends = (s->flags & ORR_SPLIT_EMBEDDING) != 0 ? 1 : 0;
        ends += (s->flags & ORR_SPLIT_LOSS) != 0 ? 1 : 0;
        return (s->layers + ends) % stages == 0 && (stages > 1 || s->layers > 0);
    }
    uint32_t given = (s->first > 0 ? 1u : 0u) + (s->last > 0 ? 1u : 0u);
    uint64_t ends = (uint64_t)s->first + s->last;
    if ((s->flags & (ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS)) != 0 || ends > s->layers ||
        s->first % s->vpp != 0 || s->last % s->vpp != 0 || given > s->pp) {
        return false;
    }
    uint32_t ranks = s->pp - given;
    uint32_t rest = s->layers - (uint32_t)ends;
    return ranks == 0 ? rest == 0 : rest % ranks == 0 && rest / ranks % s->vpp == 0;
}

static bool layout_fits(const orr_model *model, const orr_plan *plan) {
    uint64_t layers = 0;
    for (uint32_t i = 0; i < plan->layout->stages; i++) {
        layers += plan->layout->layers[i];
    }
    return plan->layout->stages == orr_plan_stages(plan) && layers == model->layers;
}

bool orr_plan_placeable(const orr_model *model, const orr_plan *plan) {
    uint32_t flags, stages = orr_plan_stages(plan);
    if (stages == 0 || stages > MAX_STAGES) {
        return false;
    }
    placing how = orr_plan_placing(model, plan, &flags);
    if (how == PLACING_SPLIT) {
        orr_split_spec spec = split_of(model, plan, flags);
        return split_fits(&spec);
    }
    return how == PLACING_LAYOUT   ? layout_fits(model, plan)
           : how == PLACING_SPREAD ? model->layers + 2 >= stages
                                   : how == PLACING_WALK || model->layers + 1 >= stages;
}

uint32_t orr_plan_empty_stage(const orr_model *model, const orr_plan *plan) {
    uint32_t flags, stages = orr_plan_stages(plan);
    placing how = orr_plan_placing(model, plan, &flags);
    if (how == PLACING_WALK && stages > 1) {
        uint32_t last = walk_layers(model, stages, NULL);
        return last + 1 < stages ? last + 1 : UINT32_MAX;
    }
    if (how == PLACING_LAYOUT) {
        const orr_layout *layout = plan->layout;
        for (uint32_t i = 1; i + 1 < layout->stages; i++) {
            bool mtp = layout->mtp_layers > 0 && i == layout->mtp_stage;
            if (layout->layers[i] == 0 && !mtp) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

static orr_status place_by_stage(const orr_model *model, const orr_plan *plan, placing how,
                                 const orr_split_spec *split, uint32_t *count, orr_err *err) {
    uint32_t stages = orr_plan_stages(plan);
    ORR_UNSET uint32_t offset[MAX_STAGES];
    switch (how) {
    case PLACING_SPLIT: return orr_split_layers(split, count, offset, err);
    case PLACING_WALK: (void)walk_layers(model, stages, count); return ORR_OK;
    case PLACING_LAYOUT:
        for (uint32_t i = 0; i < stages; i++) {
            count[i] = plan->layout->layers[i];
        }
        return ORR_OK;
    case PLACING_BALANCED: balance_layers(model, stages, count); return ORR_OK;
    case PLACING_SPREAD: spread_layers(model, stages, count); return ORR_OK;
    }
    return ORR_OK;
}

static void deal_out(const orr_plan *plan, const uint32_t *by_stage, uint32_t *count,
                     uint32_t *offset) {
    ORR_UNSET uint32_t before[MAX_STAGES + 1];
    uint32_t vpp = plan->pipe.vpp;
    before[0] = 0;
    for (uint32_t i = 0; i < orr_plan_stages(plan); i++) {
        before[i + 1] = before[i] + by_stage[i];
    }
    for (uint32_t rank = 0; rank < plan->pipe.pp; rank++) {
        for (uint32_t chunk = 0; chunk < vpp; chunk++) {
            uint32_t stage = orr_plan_stage(plan, rank, chunk, NULL);
            count[rank * vpp + chunk] = by_stage[stage];
            offset[rank * vpp + chunk] = before[stage];
        }
    }
}

static orr_status place_and_deal(const orr_model *model, const orr_plan *plan, placing how,
                                 const orr_split_spec *split, uint32_t *count, uint32_t *offset,
                                 orr_err *err) {
    ORR_UNSET uint32_t by_stage[MAX_STAGES];
    memset(by_stage, 0, orr_plan_stages(plan) * sizeof *by_stage);
    ORR_TRY(place_by_stage(model, plan, how, split, by_stage, err));
    deal_out(plan, by_stage, count, offset);
    return ORR_OK;
}

orr_status orr_plan_layers(const orr_model *model, const orr_plan *plan, uint32_t *count,
                           uint32_t *offset, orr_err *err) {
    uint32_t flags;
    placing how = orr_plan_placing(model, plan, &flags);
    orr_split_spec split = split_of(model, plan, flags);
    if (how == PLACING_SPLIT && split.vpp == plan->pipe.vpp) {
        return orr_split_layers(&split, count, offset, err);
    }
    if (!orr_plan_placeable(model, plan)) {
        return orr_fail(err, ORR_E_INFEASIBLE, "%u layers cannot be placed on %u stages",
                        model->layers, orr_plan_stages(plan));
    }
    return place_and_deal(model, plan, how, &split, count, offset, err);
}
