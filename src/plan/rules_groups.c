/* Rules of tensor, sequence, context and data parallelism, of sharding and of the batch. */
#include "plan/plan_int.h"

static uint64_t model_ranks(const orr_plan *p) {
    return (uint64_t)p->split.tp * p->pipe.pp * p->split.cp;
}

/* Accelerators of the innermost tier. */
static uint32_t domain_of(const orr_cluster *cluster) {
    return cluster->tier_count > 0 ? cluster->tier[0].gpus : cluster->gpus_per_node;
}

/* ---- accelerators --------------------------------------------------------------------------- */

static bool gpus_product(const orr_resolved *r, rule_note *note) {
    const orr_plan *p = &r->plan;
    uint64_t ranks = model_ranks(p);
    if (ranks * p->shard.dp == p->gpus) {
        return false;
    }
    uint64_t below = ranks == 0 ? 0 : p->gpus / ranks * ranks;
    if (below > 0) {
        orr_rule_hint(note, "use gpus %llu or %llu", (unsigned long long)below,
                      (unsigned long long)(below + ranks));
    } else {
        orr_rule_hint(note, "use gpus %llu, or smaller degrees", (unsigned long long)ranks);
    }
    return orr_rule_say(note, "tp %u x pp %u x cp %u = %llu does not divide gpus %u", p->split.tp,
                        p->pipe.pp, p->split.cp, (unsigned long long)ranks, p->gpus);
}

static bool gpus_beyond_cluster(const orr_resolved *r, rule_note *note) {
    if (r->cluster->gpus == 0 || r->plan.gpus <= r->cluster->gpus) {
        return false;
    }
    orr_rule_hint(note, "use gpus %u or fewer", r->cluster->gpus);
    return orr_rule_say(note, "the plan takes %u accelerators, cluster %s holds %u", r->plan.gpus,
                        r->cluster->name, r->cluster->gpus);
}

static bool gpus_partial_node(const orr_resolved *r, rule_note *note) {
    uint32_t node = r->cluster->gpus_per_node;
    if (node == 0 || r->plan.gpus <= node || r->plan.gpus % node == 0) {
        return false;
    }
    orr_rule_hint(note, "use gpus %u or %u", r->plan.gpus / node * node,
                  (r->plan.gpus / node + 1) * node);
    return orr_rule_say(note, "gpus %u leave a node of %u partly idle", r->plan.gpus, node);
}

/* ---- tensor parallelism ---------------------------------------------------------------------- */

static const orr_layer *bad_heads(const orr_model *model, uint32_t tp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].attention.heads % tp != 0) {
            return &model->kind[i];
        }
    }
    return NULL;
}

/* Key-value heads are split, or each is copied to several ranks. */
static const orr_layer *bad_kv_heads(const orr_model *model, uint32_t tp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        uint32_t kv = model->kind[i].attention.kv_heads;
        bool grouped = model->kind[i].attention.kind == ORR_ATTENTION_GQA && kv > 0;
        if (grouped && kv % tp != 0 && tp % kv != 0) {
            return &model->kind[i];
        }
    }
    return NULL;
}

static const orr_layer *bad_ffn(const orr_model *model, uint32_t tp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.ffn % tp != 0 || model->kind[i].mlp.shared_ffn % tp != 0) {
            return &model->kind[i];
        }
    }
    return NULL;
}

static bool tp_fits(const orr_resolved *r, uint32_t tp) {
    const orr_model *m = r->model;
    return m->hidden % tp == 0 && bad_heads(m, tp) == NULL && bad_kv_heads(m, tp) == NULL &&
           bad_ffn(m, tp) == NULL;
}

static void hint_tp(rule_note *note, const orr_resolved *r) {
    orr_rule_nearest(note, "tp", r, r->plan.split.tp, 8192, tp_fits);
}

static bool tp_heads(const orr_resolved *r, rule_note *note) {
    const orr_layer *layer = bad_heads(r->model, r->plan.split.tp);
    if (layer == NULL) {
        return false;
    }
    hint_tp(note, r);
    return orr_rule_say(note, "tp %u does not divide the %u attention heads", r->plan.split.tp,
                        layer->attention.heads);
}

static bool tp_kv_heads(const orr_resolved *r, rule_note *note) {
    const orr_layer *layer = bad_kv_heads(r->model, r->plan.split.tp);
    if (layer == NULL) {
        return false;
    }
    hint_tp(note, r);
    return orr_rule_say(note, "tp %u neither divides nor is a multiple of the %u key-value heads",
                        r->plan.split.tp, layer->attention.kv_heads);
}

static bool tp_kv_copies(const orr_resolved *r, rule_note *note) {
    for (uint32_t i = 0; i < r->model->kind_count; i++) {
        const orr_attention *a = &r->model->kind[i].attention;
        uint32_t kv = a->kv_heads, tp = r->plan.split.tp;
        if (a->kind == ORR_ATTENTION_GQA && kv > 0 && tp > kv && tp % kv == 0) {
            orr_rule_hint(note, "use tp %u", kv);
            return orr_rule_say(note, "tp %u keeps %u copies of each of the %u key-value heads", tp,
                                tp / kv, kv);
        }
    }
    return false;
}

static bool tp_hidden(const orr_resolved *r, rule_note *note) {
    if (r->model->hidden % r->plan.split.tp == 0) {
        return false;
    }
    hint_tp(note, r);
    return orr_rule_say(note, "tp %u does not divide the hidden size %u", r->plan.split.tp,
                        r->model->hidden);
}

static bool tp_ffn(const orr_resolved *r, rule_note *note) {
    const orr_layer *layer = bad_ffn(r->model, r->plan.split.tp);
    if (layer == NULL) {
        return false;
    }
    bool dense = layer->mlp.ffn % r->plan.split.tp != 0;
    hint_tp(note, r);
    return orr_rule_say(note, "tp %u does not divide the %s width %u", r->plan.split.tp,
                        dense ? "feed-forward" : "shared-expert",
                        dense ? layer->mlp.ffn : layer->mlp.shared_ffn);
}

static bool tp_outside_domain(const orr_resolved *r, rule_note *note) {
    uint32_t domain = domain_of(r->cluster), tp = r->plan.split.tp;
    if (tp == 1 || domain == 0 || domain % tp == 0) {
        return false;
    }
    orr_rule_hint(note, "use a tp that divides %u", domain);
    return orr_rule_say(note, "tp %u does not stay inside a scale-up domain of %u", tp, domain);
}

/* ---- sequence parallelism -------------------------------------------------------------------- */

static bool sp_fits(const orr_resolved *r, uint32_t tp) {
    uint64_t local = r->plan.batch.seq / orr_max_u32(1, r->plan.split.cp);
    return local % tp == 0 && tp_fits(r, tp);
}

static bool sp_sequence(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    uint32_t local = r->plan.batch.seq / s->cp;
    if (!s->sp || local % s->tp == 0) {
        return false;
    }
    orr_rule_nearest(note, "tp", r, s->tp, 8192, sp_fits);
    return orr_rule_say(note, "tp %u does not divide the %u tokens of seq %u / cp %u", s->tp, local,
                        r->plan.batch.seq, s->cp);
}

/* ---- context parallelism --------------------------------------------------------------------- */

static bool is_causal(const orr_model *model) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].attention.causal) {
            return true;
        }
    }
    return false;
}

/* Causal rings give each rank an early and a late piece, so that all have the same work. */
static uint32_t cp_pieces(const orr_resolved *r, uint32_t cp) {
    bool halves = cp > 1 && r->plan.split.cp_kind != ORR_CP_A2A && is_causal(r->model);
    return halves ? 2 * cp : cp;
}

static bool cp_fits(const orr_resolved *r, uint32_t cp) {
    return r->plan.batch.seq % cp_pieces(r, cp) == 0;
}

static bool cp_sequence(const orr_resolved *r, rule_note *note) {
    uint32_t cp = r->plan.split.cp, pieces = cp_pieces(r, cp);
    if (r->plan.batch.seq % pieces == 0) {
        return false;
    }
    orr_rule_nearest(note, "cp", r, cp, 8192, cp_fits);
    return orr_rule_say(note, "seq %u is not a multiple of %s%u", r->plan.batch.seq,
                        pieces == cp ? "cp " : "2 cp = ", pieces);
}

static bool cp_heads(const orr_resolved *r, rule_note *note) {
    const orr_split *s = &r->plan.split;
    if (s->cp == 1 || s->cp_kind != ORR_CP_A2A) {
        return false;
    }
    for (uint32_t i = 0; i < r->model->kind_count; i++) {
        const orr_attention *a = &r->model->kind[i].attention;
        uint32_t local = a->heads / s->tp, kv = orr_max_u32(1, a->kv_heads / s->tp);
        if (a->heads > 0 && (local % s->cp != 0 || (kv % s->cp != 0 && s->cp % kv != 0))) {
            orr_rule_hint(note, "use cp_kind ring, or a cp that divides %u heads", local);
            return orr_rule_say(note,
                                "cp %u by all-to-all splits heads: it does not divide the %u "
                                "heads and %u key-value heads of a tensor-parallel rank",
                                s->cp, local, kv);
        }
    }
    return false;
}

static bool cp_unfused(const orr_resolved *r, rule_note *note) {
    if (r->plan.split.cp == 1 || r->plan.variant.attention != ORR_KERNEL_UNFUSED) {
        return false;
    }
    orr_rule_hint(note, "use attention flash");
    return orr_rule_say(note, "cp %u takes fused attention; attention is unfused",
                        r->plan.split.cp);
}

static bool cp_window(const orr_resolved *r, rule_note *note) {
    if (r->plan.split.cp == 1 || r->plan.split.cp_kind != ORR_CP_RING) {
        return false;
    }
    for (uint32_t i = 0; i < r->model->kind_count; i++) {
        uint32_t window = r->model->kind[i].attention.window;
        if (window > 0 && window < r->plan.batch.seq) {
            orr_rule_hint(note, "use cp_kind allgather or a2a");
            return orr_rule_say(note, "a ring passes all %u tokens through a window of %u",
                                r->plan.batch.seq, window);
        }
    }
    return false;
}

static bool cp_refused(const orr_resolved *r, rule_note *note) {
    if (r->plan.split.cp == 1 || (r->software->refuses & ORR_REFUSES_CP) == 0) {
        return false;
    }
    orr_rule_hint(note, "use cp 1");
    return orr_rule_say(note, "%s has no context parallelism; cp is %u", r->software->name,
                        r->plan.split.cp);
}

/* ---- batch ---------------------------------------------------------------------------------- */

static bool batch_product(const orr_resolved *r, rule_note *note) {
    const orr_plan *p = &r->plan;
    uint64_t step = (uint64_t)p->batch.mbs * p->shard.dp;
    if (step * p->batch.micro_batches == p->gbs && p->gbs > 0) {
        return false;
    }
    uint64_t below = step == 0 ? 0 : p->gbs / step * step;
    if (below > 0) {
        orr_rule_hint(note, "use gbs %llu or %llu", (unsigned long long)below,
                      (unsigned long long)(below + step));
    } else {
        orr_rule_hint(note, "use gbs %llu", (unsigned long long)step);
    }
    return orr_rule_say(note, "gbs %u is not micro-batches %u x mbs %u x dp %u", p->gbs,
                        p->batch.micro_batches, p->batch.mbs, p->shard.dp);
}

static bool batch_long(const orr_resolved *r, rule_note *note) {
    const orr_model *m = r->model;
    if (m->max_seq == 0 || r->plan.batch.seq <= m->max_seq) {
        return false;
    }
    bool learned = m->position == ORR_POSITION_LEARNED;
    orr_rule_hint(note, "use seq %u or less, unless %s", m->max_seq,
                  learned ? "the table of positions is enlarged" : "the positions are rescaled");
    return orr_rule_say(note, "seq %u is beyond the model's %u", r->plan.batch.seq, m->max_seq);
}

/* ---- sharding ------------------------------------------------------------------------------- */

static uint32_t replicas(const orr_plan *p) {
    return p->shard.dp * p->split.cp;
}

static bool group_fits(const orr_resolved *r, uint32_t group) {
    return replicas(&r->plan) % group == 0;
}

static bool shard_group(const orr_resolved *r, rule_note *note) {
    uint32_t group = r->plan.shard.group, ranks = replicas(&r->plan);
    if (group == 0 || ranks % group == 0) {
        return false;
    }
    orr_rule_nearest(note, "shard_group", r, group, ranks, group_fits);
    return orr_rule_say(note, "shard_group %u does not divide dp %u x cp %u", group,
                        r->plan.shard.dp, r->plan.split.cp);
}

static bool shard_hsdp_group(const orr_resolved *r, rule_note *note) {
    if (r->plan.shard.kind != ORR_SHARD_HSDP || r->plan.shard.group != 0) {
        return false;
    }
    orr_rule_hint(note, "use shard_group %u", r->cluster->gpus_per_node);
    return orr_rule_say(note, "hsdp takes a shard_group: the ranks that share one copy");
}

static bool sharded_pipeline(const orr_plan *p) {
    return p->pipe.pp > 1 && shards_params(p->shard.kind);
}

static bool shard_fsdp_pp(const orr_resolved *r, rule_note *note) {
    if (!sharded_pipeline(&r->plan) || (r->software->refuses & ORR_REFUSES_FSDP_PP) == 0) {
        return false;
    }
    orr_rule_hint(note, "use pp 1, or sharding zero1");
    return orr_rule_say(note, "%s does not combine sharded parameters with pp %u",
                        r->software->name, r->plan.pipe.pp);
}

static bool shard_gathers(const orr_resolved *r, rule_note *note) {
    if (!sharded_pipeline(&r->plan) || (r->software->refuses & ORR_REFUSES_FSDP_PP) != 0 ||
        r->plan.batch.micro_batches == 1) {
        return false;
    }
    orr_rule_hint(note, "use sharding zero1, or pp 1");
    return orr_rule_say(note, "sharded parameters are gathered again for each of %u micro-batches",
                        r->plan.batch.micro_batches);
}

static bool shard_fsdp_ep(const orr_resolved *r, rule_note *note) {
    uint32_t refuses = r->software->refuses;
    bool torch = r->plan.shard.kind == ORR_SHARD_FSDP2 && (refuses & ORR_REFUSES_FSDP2_EP) != 0;
    bool any = shards_params(r->plan.shard.kind) && (refuses & ORR_REFUSES_FSDP_EP) != 0;
    if (r->plan.split.ep == 1 || (!torch && !any)) {
        return false;
    }
    orr_rule_hint(note, any ? "use ep 1, or sharding zero1" : "use sharding zero3 or zero1");
    return orr_rule_say(note, "%s does not combine sharded parameters with ep %u",
                        r->software->name, r->plan.split.ep);
}

static bool zero2_pipeline(const orr_plan *p) {
    return p->pipe.pp > 1 && p->shard.kind == ORR_SHARD_ZERO2;
}

static bool shard_zero2_pp(const orr_resolved *r, rule_note *note) {
    if (!zero2_pipeline(&r->plan) || (r->software->refuses & ORR_REFUSES_ZERO2_PP) == 0) {
        return false;
    }
    orr_rule_hint(note, "use sharding zero1");
    return orr_rule_say(note, "%s does not combine sharded gradients with pp %u", r->software->name,
                        r->plan.pipe.pp);
}

static bool shard_scatters(const orr_resolved *r, rule_note *note) {
    if (!zero2_pipeline(&r->plan) || (r->software->refuses & ORR_REFUSES_ZERO2_PP) != 0 ||
        r->plan.batch.micro_batches == 1) {
        return false;
    }
    orr_rule_hint(note, "use sharding zero1");
    return orr_rule_say(note, "sharded gradients are reduced for each of %u micro-batches",
                        r->plan.batch.micro_batches);
}

static bool shard_muon(const orr_resolved *r, rule_note *note) {
    if (r->plan.numeric.optimizer != ORR_MUON || r->plan.shard.kind < ORR_SHARD_ZERO3 ||
        replicas(&r->plan) == 1) {
        return false;
    }
    orr_rule_hint(note, "sharding zero1 deals matrices out whole, as dist_muon does");
    return orr_rule_say(note, "muon works on whole matrices: their shards meet on one rank and "
                              "updates go back, every step");
}

/* ---- table ---------------------------------------------------------------------------------- */

static const plan_rule rules[] = {
    {"PAR-GPUS-01", ORR_RULE_ILLEGAL, "gpus = tp x pp x cp x dp", gpus_product},
    {"PAR-GPUS-02", ORR_RULE_ILLEGAL, "the cluster holds the plan's accelerators",
     gpus_beyond_cluster},
    {"PAR-GPUS-03", ORR_RULE_WARNING, "whole nodes are used", gpus_partial_node},
    {"PAR-TP-01", ORR_RULE_ILLEGAL, "tp divides the attention heads", tp_heads},
    {"PAR-TP-02", ORR_RULE_ILLEGAL, "tp divides the key-value heads or is a multiple of them",
     tp_kv_heads},
    {"PAR-TP-03", ORR_RULE_ILLEGAL, "tp divides the hidden size", tp_hidden},
    {"PAR-TP-04", ORR_RULE_ILLEGAL, "tp divides the feed-forward and shared-expert widths", tp_ffn},
    {"PAR-TP-05", ORR_RULE_WARNING, "no key-value head is copied", tp_kv_copies},
    {"PAR-TP-06", ORR_RULE_WARNING, "tp stays inside a scale-up domain", tp_outside_domain},
    {"PAR-SP-01", ORR_RULE_DOES_NOT_START, "with sp, tp divides seq / cp", sp_sequence},
    {"PAR-CP-01", ORR_RULE_ILLEGAL, "seq is a multiple of cp, or of 2 cp in balanced causal rings",
     cp_sequence},
    {"PAR-CP-02", ORR_RULE_ILLEGAL, "all-to-all context parallelism divides the local heads",
     cp_heads},
    {"PAR-CP-03", ORR_RULE_DOES_NOT_START, "context parallelism takes fused attention", cp_unfused},
    {"PAR-CP-04", ORR_RULE_DOES_NOT_START, "the software has context parallelism", cp_refused},
    {"PAR-CP-05", ORR_RULE_WARNING, "windowed attention goes without a ring", cp_window},
    {"BATCH-01", ORR_RULE_ILLEGAL, "gbs = micro-batches x mbs x dp", batch_product},
    {"BATCH-02", ORR_RULE_WARNING, "seq stays within the model's length", batch_long},
    {"SHARD-01", ORR_RULE_ILLEGAL, "shard_group divides dp x cp", shard_group},
    {"SHARD-02", ORR_RULE_ILLEGAL, "hsdp has a shard_group", shard_hsdp_group},
    {"SHARD-03", ORR_RULE_DOES_NOT_START, "the software shards parameters under a pipeline",
     shard_fsdp_pp},
    {"SHARD-04", ORR_RULE_DOES_NOT_START, "the software shards parameters beside ep",
     shard_fsdp_ep},
    {"SHARD-05", ORR_RULE_DOES_NOT_START, "the software shards gradients under a pipeline",
     shard_zero2_pp},
    {"SHARD-06", ORR_RULE_WARNING, "a pipeline does not gather parameters per micro-batch",
     shard_gathers},
    {"SHARD-07", ORR_RULE_WARNING, "a pipeline does not reduce gradients per micro-batch",
     shard_scatters},
    {"SHARD-08", ORR_RULE_WARNING, "muon's matrices stay whole", shard_muon},
};
const rule_list orr_rules_groups = {rules, sizeof rules / sizeof *rules};
