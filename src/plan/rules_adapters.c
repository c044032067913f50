/* Rules of low-rank adapters and of the frozen weights beside them. */
#include "plan/plan_int.h"

static bool lora_targets(const orr_resolved *r, rule_note *note) {
    orr_lora one = r->plan.lora;
    if (one.rank == 0) {
        return false;
    }
    one.rank = 1;
    if (orr_plan_adapter_params(r->model, &one) > 0) {
        return false;
    }
    orr_rule_hint(note, "use targets all-linear");
    return orr_rule_say(note, "the targets of lora name no linear of %s", r->model->name);
}

/* Adapters are cut over the ranks of their linears. */
static bool rank_fits(const orr_resolved *r, uint32_t rank) {
    return rank % orr_max_u32(1, r->plan.split.tp) == 0;
}

static bool lora_rank(const orr_resolved *r, rule_note *note) {
    uint32_t rank = r->plan.lora.rank;
    if (rank_fits(r, rank)) {
        return false;
    }
    orr_rule_nearest(note, "lora", r, rank, 4096, rank_fits);
    return orr_rule_say(note, "tp %u does not divide the rank %u of the adapters", r->plan.split.tp,
                        rank);
}

static bool lora_wide(const orr_resolved *r, rule_note *note) {
    uint32_t rank = r->plan.lora.rank;
    if (rank <= r->model->hidden) {
        return false;
    }
    orr_rule_hint(note, "use lora %u or less", r->model->hidden);
    return orr_rule_say(note, "adapters of rank %u are wider than the hidden size %u", rank,
                        r->model->hidden);
}

static bool lora_base_alone(const orr_resolved *r, rule_note *note) {
    if (r->plan.lora.base == ORR_BASE_16BIT || r->plan.lora.rank > 0) {
        return false;
    }
    orr_rule_hint(note, "use lora 16, or base_dtype 16bit");
    return orr_rule_say(note, "base_dtype %s takes adapters: quantised weights do not train",
                        orr_plan_value_name(KEY_BASE_DTYPE, r->plan.lora.base));
}

static bool lora_base_fp8(const orr_resolved *r, rule_note *note) {
    const orr_numeric *n = &r->plan.numeric;
    if (r->plan.lora.base == ORR_BASE_16BIT || (!is_fp8(n->precision) && n->param_bytes != 1)) {
        return false;
    }
    orr_rule_hint(note, "use precision bf16, or base_dtype 16bit");
    return orr_rule_say(note, "weights that rest in %s are computed with in 16 bits, not in %s",
                        orr_plan_value_name(KEY_BASE_DTYPE, r->plan.lora.base),
                        orr_plan_value_name(KEY_PRECISION, n->precision));
}

static bool lora_base_split(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    if (r->plan.lora.base == ORR_BASE_16BIT || (s->tp == 1 && s->etp == 1)) {
        return false;
    }
    orr_rule_hint(note, "use tp 1 with sharding fsdp2");
    return orr_rule_say(note, "blocks of %s weights are seldom cut over tp %u by any framework",
                        orr_plan_value_name(KEY_BASE_DTYPE, r->plan.lora.base), s->tp);
}

static const plan_rule rules[] = {
    {"LORA-01", ORR_RULE_ILLEGAL, "adapters' targets name linears of the model", lora_targets},
    {"LORA-02", ORR_RULE_DOES_NOT_START, "tp divides the rank of adapters", lora_rank},
    {"LORA-03", ORR_RULE_ILLEGAL, "quantised base weights go with adapters", lora_base_alone},
    {"LORA-04", ORR_RULE_DOES_NOT_START, "quantised base weights are computed with in 16 bits",
     lora_base_fp8},
    {"LORA-05", ORR_RULE_WARNING, "adapters are narrower than the hidden size", lora_wide},
    {"LORA-06", ORR_RULE_WARNING, "quantised base weights are not cut over tp", lora_base_split},
};
const rule_list orr_rules_adapters = {rules, sizeof rules / sizeof *rules};
