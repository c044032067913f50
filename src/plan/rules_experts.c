/* Rules of mixtures of experts. */
#include "plan/plan_int.h"

static bool is_deepep(uint8_t dispatch) {
    return dispatch >= ORR_DISPATCH_DEEPEP;
}

static uint64_t expert_group(const orr_split *s) {
    return (uint64_t)s->ep * s->etp;
}

static bool ep_dense(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    if ((s->ep == 1 && s->etp == 1) || is_moe(r->model)) {
        return false;
    }
    orr_rule_hint(note, "use ep 1 and etp 1");
    return orr_rule_say(note, "ep %u, etp %u, but %s has no experts", s->ep, s->etp,
                        r->model->name);
}

/* Modules and dispatches that only a mixture of experts has. */
static bool moe_flags(const orr_resolved *r, rule_note *note) {
    const orr_recompute *c = &r->plan.recompute;
    const uint32_t modules = ORR_MODULE_MOE | ORR_MODULE_MOE_ACT | ORR_MODULE_SHARED_EXPERTS;
    bool recompute = c->kind == ORR_RECOMPUTE_SELECTIVE && (c->modules & modules) != 0;
    bool dispatch = r->plan.variant.dispatch != ORR_DISPATCH_ALLTOALL;
    bool overlap = (r->plan.overlap & ORR_OVERLAP_EP) != 0;
    if (is_moe(r->model) || !(recompute || dispatch || overlap)) {
        return false;
    }
    orr_rule_hint(note, "leave %s out",
                  recompute  ? "moe, moe_act and shared_experts"
                  : dispatch ? "dispatch"
                             : "overlap ep");
    return orr_rule_say(note, "%s is for experts, but %s has none",
                        recompute  ? "recompute of expert modules"
                        : dispatch ? orr_plan_value_name(KEY_DISPATCH, r->plan.variant.dispatch)
                                   : "overlap ep",
                        r->model->name);
}

/* One pipeline group for both views of the ranks takes one stride, so equally many replicas. */
static bool ep_order(const orr_resolved *r, rule_note *note) {
    const orr_plan *p = &r->plan;
    uint64_t dense = (uint64_t)p->split.tp * p->split.cp;
    if (p->pipe.order != ORR_ORDER_DP_LAST || p->pipe.pp == 1 || !is_moe(r->model) ||
        expert_group(&p->split) == dense) {
        return false;
    }
    orr_rule_hint(note, "use rank_order tp-cp-ep-dp-pp, or ep x etp = %llu",
                  (unsigned long long)dense);
    return orr_rule_say(note,
                        "with stages inside data parallelism, ep %u x etp %u has to be tp %u x cp "
                        "%u: experts and the rest have one pipeline",
                        p->split.ep, p->split.etp, p->split.tp, p->split.cp);
}

static const orr_layer *bad_experts(const orr_model *model, uint32_t ep) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.experts % ep != 0) {
            return &model->kind[i];
        }
    }
    return NULL;
}

static uint64_t stage_ranks(const orr_plan *p) {
    return (uint64_t)p->split.tp * p->split.cp * p->shard.dp;
}

static bool ep_fits(const orr_resolved *r, uint32_t ep) {
    return bad_experts(r->model, ep) == NULL &&
           divides((uint64_t)ep * r->plan.split.etp, stage_ranks(&r->plan));
}

static bool ep_experts(const orr_resolved *r, rule_note *note) {
    const orr_layer *layer = bad_experts(r->model, r->plan.split.ep);
    if (layer == NULL) {
        return false;
    }
    orr_rule_nearest(note, "ep", r, r->plan.split.ep, ORR_MAX_EXPERTS, ep_fits);
    return orr_rule_say(note, "ep %u does not divide the %u experts", r->plan.split.ep,
                        layer->mlp.experts);
}

static bool ep_ranks(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    uint64_t ranks = stage_ranks(&r->plan);
    if (divides(expert_group(s), ranks)) {
        return false;
    }
    orr_rule_nearest(note, "ep", r, s->ep, ORR_MAX_EXPERTS, ep_fits);
    return orr_rule_say(note,
                        "ep %u x etp %u does not divide the %llu ranks of a stage (tp %u x "
                        "cp %u x dp %u)",
                        s->ep, s->etp, (unsigned long long)ranks, s->tp, s->cp, r->plan.shard.dp);
}

static const orr_layer *bad_expert_ffn(const orr_model *model, uint32_t etp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.expert_ffn % etp != 0) {
            return &model->kind[i];
        }
    }
    return NULL;
}

static bool etp_fits(const orr_resolved *r, uint32_t etp) {
    return bad_expert_ffn(r->model, etp) == NULL &&
           divides((uint64_t)etp * r->plan.split.ep, stage_ranks(&r->plan));
}

static bool etp_width(const orr_resolved *r, rule_note *note) {
    const orr_layer *layer = bad_expert_ffn(r->model, r->plan.split.etp);
    if (layer == NULL) {
        return false;
    }
    orr_rule_nearest(note, "etp", r, r->plan.split.etp, 8192, etp_fits);
    return orr_rule_say(note, "etp %u does not divide the expert width %u", r->plan.split.etp,
                        layer->mlp.expert_ffn);
}

static bool cp_folding(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    if (s->cp == 1 || s->ep == 1 || s->ep % s->cp == 0 || s->cp % s->ep == 0) {
        return false;
    }
    orr_rule_hint(note, "use an ep that is a multiple of cp %u", s->cp);
    return orr_rule_say(note, "expert groups of %u cut through context groups of %u", s->ep, s->cp);
}

static bool moe_without_sp(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    if (s->tp == 1 || s->sp || (r->software->refuses & ORR_REFUSES_MOE_TP_NO_SP) == 0 ||
        !is_moe(r->model)) {
        return false;
    }
    orr_rule_hint(note, "use sp on");
    return orr_rule_say(note, "%s trains experts at tp %u only with sequence parallelism",
                        r->software->name, s->tp);
}

static bool ep_refused(const orr_resolved *r, rule_note *note) {
    if (r->plan.split.ep == 1 || (r->software->refuses & ORR_REFUSES_EP) == 0) {
        return false;
    }
    orr_rule_hint(note, "use ep 1");
    return orr_rule_say(note, "%s has no expert parallelism; ep is %u", r->software->name,
                        r->plan.split.ep);
}

/* ---- dispatch ------------------------------------------------------------------------------- */

static bool deepep_alone(const orr_resolved *r, rule_note *note) {
    if (!is_deepep(r->plan.variant.dispatch) || expert_group(&r->plan.split) > 1 ||
        !is_moe(r->model)) {
        return false;
    }
    orr_rule_hint(note, "use dispatch alltoall, or ep above 1");
    return orr_rule_say(note, "dispatch %s takes several expert ranks; ep x etp is 1",
                        orr_plan_value_name(KEY_DISPATCH, r->plan.variant.dispatch));
}

static bool dispatch_afar(const orr_resolved *r, rule_note *note) {
    const orr_cluster *c = r->cluster;
    uint32_t domain = c->tier_count > 0 ? c->tier[0].gpus : c->gpus_per_node;
    if (is_deepep(r->plan.variant.dispatch) || r->plan.split.ep == 1 ||
        expert_group(&r->plan.split) <= domain) {
        return false;
    }
    orr_rule_hint(note, "use dispatch deepep, or ep %u or less",
                  orr_max_u32(1, domain / r->plan.split.etp));
    return orr_rule_say(note, "%s sends every copy of a token out of the scale-up domain of %u",
                        orr_plan_value_name(KEY_DISPATCH, r->plan.variant.dispatch), domain);
}

/* ---- overlap of experts -----------------------------------------------------------------------
 */

static bool overlaps_experts(const orr_resolved *r) {
    return (r->plan.overlap & ORR_OVERLAP_EP) != 0 && is_moe(r->model);
}

static bool overlap_alone(const orr_resolved *r, rule_note *note) {
    if (!overlaps_experts(r) || r->plan.split.ep > 1) {
        return false;
    }
    orr_rule_hint(note, "leave overlap ep out");
    return orr_rule_say(note, "overlap ep takes ep above 1");
}

static bool overlap_chunks(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    bool merges = p->schedule == ORR_SCHEDULE_DUALPIPE || p->schedule == ORR_SCHEDULE_DUALPIPEV;
    if (!overlaps_experts(r) || p->pp == 1 || p->vpp > 1 || merges) {
        return false;
    }
    orr_rule_hint(note, "use vpp above 1, or leave overlap ep out");
    return orr_rule_say(note, "overlap ep under a pipeline takes several chunks a rank; vpp is 1");
}

static bool overlap_recompute(const orr_resolved *r, rule_note *note) {
    const orr_recompute *c = &r->plan.recompute;
    bool whole = c->kind == ORR_RECOMPUTE_FULL || c->kind == ORR_RECOMPUTE_BLOCK ||
                 c->kind == ORR_RECOMPUTE_UNIFORM ||
                 (c->kind == ORR_RECOMPUTE_SELECTIVE && (c->modules & ORR_MODULE_MOE) != 0);
    if (!overlaps_experts(r) || !whole) {
        return false;
    }
    orr_rule_hint(note, "use recompute none or selective without moe");
    return orr_rule_say(note, "overlap ep does not go with recompute of whole layers or experts");
}

static bool overlap_dispatch(const orr_resolved *r, rule_note *note) {
    if (!overlaps_experts(r) || r->plan.variant.dispatch != ORR_DISPATCH_ALLGATHER) {
        return false;
    }
    orr_rule_hint(note, "use dispatch alltoall or deepep");
    return orr_rule_say(note, "overlap ep does not go with dispatch allgather");
}

/* ---- table ---------------------------------------------------------------------------------- */

static const plan_rule rules[] = {
    {"MOE-ORDER-01", ORR_RULE_DOES_NOT_START,
     "with stages inside data parallelism, experts have as many replicas as the rest", ep_order},
    {"MOE-EP-01", ORR_RULE_ILLEGAL, "ep and etp go with experts", ep_dense},
    {"MOE-EP-02", ORR_RULE_ILLEGAL, "ep divides the experts", ep_experts},
    {"MOE-EP-03", ORR_RULE_ILLEGAL, "ep x etp divides the ranks of a stage, tp x cp x dp",
     ep_ranks},
    {"MOE-EP-04", ORR_RULE_DOES_NOT_START, "the software has expert parallelism", ep_refused},
    {"MOE-ETP-01", ORR_RULE_ILLEGAL, "etp divides the expert width", etp_width},
    {"MOE-CP-01", ORR_RULE_WARNING, "expert groups hold whole context groups", cp_folding},
    {"MOE-SP-01", ORR_RULE_DOES_NOT_START, "the software trains experts at tp > 1 without sp",
     moe_without_sp},
    {"MOE-FLAGS-01", ORR_RULE_ILLEGAL, "expert options go with experts", moe_flags},
    {"MOE-DISPATCH-01", ORR_RULE_DOES_NOT_START, "deepep and sync-free have several expert ranks",
     deepep_alone},
    {"MOE-DISPATCH-02", ORR_RULE_WARNING, "plain dispatch stays inside a scale-up domain",
     dispatch_afar},
    {"MOE-OVERLAP-01", ORR_RULE_DOES_NOT_START, "overlap ep has ep > 1", overlap_alone},
    {"MOE-OVERLAP-02", ORR_RULE_DOES_NOT_START, "overlap ep under a pipeline has vpp > 1",
     overlap_chunks},
    {"MOE-OVERLAP-03", ORR_RULE_DOES_NOT_START, "overlap ep recomputes no layers or experts",
     overlap_recompute},
    {"MOE-OVERLAP-04", ORR_RULE_DOES_NOT_START, "overlap ep dispatches by all-to-all or deepep",
     overlap_dispatch},
};
const rule_list orr_rules_experts = {rules, sizeof rules / sizeof *rules};
