/* Rules of pipelines: placement, schedules, transfers, recompute. */
#include "plan/plan_int.h"

/* ---- placement ------------------------------------------------------------------------------ */

static bool pp_fits(const orr_resolved *r, uint32_t pp) {
    orr_plan trial = r->plan;
    trial.pipe.pp = pp;
    return orr_plan_placeable(r->model, &trial);
}

static bool vpp_fits(const orr_resolved *r, uint32_t vpp) {
    orr_plan trial = r->plan;
    trial.pipe.vpp = vpp;
    return orr_plan_placeable(r->model, &trial);
}

/* "even", "even, embedding and loss as layers", "5 first" ...: what was asked of the placement. */
static const char *placement_words(rule_note *note, const orr_resolved *r, uint32_t flags) {
    const orr_pipe *p = &r->plan.pipe;
    if ((flags & ORR_SPLIT_COUNTS) != 0) {
        return orr_arena_format(note->arena, " with %u in the first and %u in the last rank",
                                p->first_layers, p->last_layers);
    }
    bool embedding = (flags & ORR_SPLIT_EMBEDDING) != 0, loss = (flags & ORR_SPLIT_LOSS) != 0;
    return embedding && loss ? " with embedding and loss as layers"
           : embedding       ? " with the embedding as a layer"
           : loss            ? " with the loss as a layer"
                             : "";
}

static bool place_layers(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    if (r->plan.layout != NULL || orr_plan_placeable(r->model, &r->plan)) {
        return false;
    }
    if (note == NULL) {
        return true;
    }
    uint32_t flags;
    (void)orr_plan_placing(r->model, &r->plan, &flags);
    rule_note vpp = {.arena = note->arena, .hint = ""};
    orr_rule_nearest(note, "pp", r, p->pp, ORR_MAX_PP, pp_fits);
    orr_rule_nearest(&vpp, "vpp", r, p->vpp, ORR_MAX_VPP, vpp_fits);
    if (p->vpp > 1 && *vpp.hint != '\0') {
        note->hint = orr_arena_format(note->arena, "%s, or %s", vpp.hint, note->hint);
    }
    orr_rule_hint(note, "%s%sstate another layout, such as balanced", note->hint,
                  *note->hint == '\0' ? "" : ", or ");
    return orr_rule_say(note, "%u layers%s do not divide over pp %u x vpp %u", r->model->layers,
                        placement_words(note, r, flags), p->pp, p->vpp);
}

static bool place_both(const orr_resolved *r, rule_note *note) {
    uint32_t flags = r->plan.pipe.split_flags;
    bool slots = (flags & (ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS)) != 0;
    bool counts = (flags & ORR_SPLIT_COUNTS) != 0;
    if ((slots ? 1 : 0) + (counts ? 1 : 0) + (r->plan.layout != NULL ? 1 : 0) < 2) {
        return false;
    }
    orr_rule_hint(note, "state one of them");
    return orr_rule_say(note, "%s%s%s exclude each other", counts ? "first_layers/last_layers" : "",
                        slots ? (counts ? " and slots of embedding or loss"
                                        : "slots of embedding "
                                          "or loss")
                              : "",
                        r->plan.layout != NULL ? " and a layout string" : "");
}

static bool layout_stages(const orr_resolved *r, rule_note *note) {
    const orr_layout *layout = r->plan.layout;
    uint32_t stages = orr_plan_stages(&r->plan);
    if (layout == NULL || layout->stages == stages) {
        return false;
    }
    if (layout->stages % r->plan.pipe.pp == 0) {
        orr_rule_hint(note, "use vpp %u", layout->stages / r->plan.pipe.pp);
    } else {
        orr_rule_hint(note, "use a pp that divides %u", layout->stages);
    }
    return orr_rule_say(note, "the layout has %u stages, pp %u x vpp %u make %u", layout->stages,
                        r->plan.pipe.pp, r->plan.pipe.vpp, stages);
}

static bool layout_layers(const orr_resolved *r, rule_note *note) {
    const orr_layout *layout = r->plan.layout;
    if (layout == NULL) {
        return false;
    }
    uint32_t layers = 0;
    for (uint32_t i = 0; i < layout->stages; i++) {
        layers += layout->layers[i];
    }
    if (layers == r->model->layers && layout->mtp_layers == r->model->mtp_layers) {
        return false;
    }
    orr_rule_hint(note, "use %u t and %u m", r->model->layers, r->model->mtp_layers);
    return orr_rule_say(note, "the layout has %u layers and %u MTP depths, the model %u and %u",
                        layers, layout->mtp_layers, r->model->layers, r->model->mtp_layers);
}

static bool layout_mtp(const orr_resolved *r, rule_note *note) {
    const orr_layout *layout = r->plan.layout;
    uint32_t pp = r->plan.pipe.pp;
    if (layout == NULL || layout->mtp_layers == 0 || pp == 1 ||
        layout->stages != orr_plan_stages(&r->plan)) {
        return false;
    }
    if (layout->mtp_stage >= layout->stages - pp && layout->mtp_stage % pp != 0) {
        return false;
    }
    orr_rule_hint(note, "put m before L, or into one of the last %u stages", pp - 1);
    return orr_rule_say(note, "MTP stands in stage %u: not in the last chunk, or on rank 0",
                        layout->mtp_stage);
}

static bool place_empty(const orr_resolved *r, rule_note *note) {
    if (!orr_plan_placeable(r->model, &r->plan)) {
        return false;
    }
    uint32_t stage = orr_plan_empty_stage(r->model, &r->plan);
    if (stage == UINT32_MAX) {
        return false;
    }
    orr_rule_hint(note, "use a smaller pp, or another layout");
    return orr_rule_say(note, "stage %u of %u would hold nothing", stage,
                        orr_plan_stages(&r->plan));
}

/* ---- schedules ------------------------------------------------------------------------------ */

enum { SCHEDULE_RULES = 8 };

static bool schedule_takes(const orr_resolved *r, rule_note *note) {
    orr_schedule_spec spec = orr_plan_schedule(&r->plan);
    if (note == NULL) {
        return orr_schedule_check(&spec, NULL, 0) > 0;
    }
    orr_schedule_rule broken[SCHEDULE_RULES];
    uint32_t count = orr_schedule_check(&spec, broken, SCHEDULE_RULES);
    if (count == 0) {
        return false;
    }
    orr_text message = orr_text_new(note->arena, 2000), hint = orr_text_new(note->arena, 2000);
    for (uint32_t i = 0; i < orr_min_u32(count, SCHEDULE_RULES); i++) {
        orr_text_format(&message, "%s%s", i == 0 ? "" : "; ", broken[i].message);
        orr_text_format(&hint, "%s%s", i == 0 || hint.length == 0 ? "" : "; ", broken[i].hint);
    }
    note->id = broken[0].id;
    note->message = orr_text_done(&message);
    note->hint = orr_text_done(&hint);
    return true;
}

static bool pipe_refuses_few(const orr_resolved *r, rule_note *note) {
    uint32_t refuses = r->software->refuses, pp = r->plan.pipe.pp;
    uint32_t least = (refuses & ORR_REFUSES_M_BELOW_PP) != 0          ? pp
                     : (refuses & ORR_REFUSES_M_BELOW_PP_LESS_1) != 0 ? pp - 1
                                                                      : 0;
    if (r->plan.batch.micro_batches >= least) {
        return false;
    }
    uint64_t gbs = (uint64_t)least * r->plan.batch.mbs * r->plan.shard.dp;
    orr_rule_hint(note, "use gbs %llu or more, or pp %u or less", (unsigned long long)gbs,
                  r->plan.batch.micro_batches + (least < pp ? 1 : 0));
    return orr_rule_say(note, "%s does not start with %u micro-batches on pp %u: it takes %u",
                        r->software->name, r->plan.batch.micro_batches, pp, least);
}

static bool pipe_unfilled(const orr_resolved *r, rule_note *note) {
    if (r->plan.pipe.pp == 1 || r->plan.batch.micro_batches >= r->plan.pipe.pp) {
        return false;
    }
    orr_rule_hint(note, "use gbs %llu or more",
                  (unsigned long long)r->plan.pipe.pp * r->plan.batch.mbs * r->plan.shard.dp);
    return orr_rule_say(note, "%u micro-batches never fill the %u stages",
                        r->plan.batch.micro_batches, r->plan.pipe.pp);
}

static bool vpp_refused(const orr_resolved *r, rule_note *note) {
    if (r->plan.pipe.vpp == 1 || (r->software->refuses & ORR_REFUSES_VPP) == 0) {
        return false;
    }
    orr_rule_hint(note, "use vpp 1");
    return orr_rule_say(note, "%s has no virtual stages; vpp is %u", r->software->name,
                        r->plan.pipe.vpp);
}

static bool vpp_alone(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    if (p->schedule != ORR_SCHEDULE_INTERLEAVED || p->pp > 1 || p->vpp == 1) {
        return false;
    }
    orr_rule_hint(note, "use vpp 1, or pp above 1");
    return orr_rule_say(note, "interleaving takes several pipeline ranks; pp is 1, vpp %u", p->vpp);
}

static bool vpp_single(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    if (p->schedule != ORR_SCHEDULE_INTERLEAVED || p->vpp > 1) {
        return false;
    }
    orr_rule_hint(note, "use schedule 1f1b, or vpp above 1");
    return orr_rule_say(note, "interleaved at vpp 1 is 1f1b");
}

/* ---- transfers ------------------------------------------------------------------------------ */

static bool p2p_two_stages(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    if (p->schedule != ORR_SCHEDULE_INTERLEAVED || p->p2p != ORR_P2P_BLOCKING || p->pp != 2) {
        return false;
    }
    orr_rule_hint(note, "use p2p overlap, or pp above 2");
    return orr_rule_say(note, "interleaving over 2 stages takes overlapped transfers");
}

static bool p2p_flush(const orr_resolved *r, rule_note *note) {
    const orr_pipe *p = &r->plan.pipe;
    if (p->pp == 1 || p->p2p != ORR_P2P_OVERLAP_WARMUP_FLUSH || p->vpp == 1 || p->group > p->pp) {
        return false;
    }
    orr_rule_hint(note, "use group above %u", p->pp);
    return orr_rule_say(note, "overlap in warm-up and flush gains nothing at group %u, pp %u",
                        p->group == 0 ? p->pp : p->group, p->pp);
}

/* ---- recompute ------------------------------------------------------------------------------ */

/* Schedules whose weight-gradient passes read what the forward pass saved. Those that pair passes
 * (DualPipe) split only at the ends and recompute selectively. */
static bool splits_backward(uint8_t schedule) {
    return schedule != ORR_SCHEDULE_DUALPIPE && schedule != ORR_SCHEDULE_DUALPIPEV &&
           orr_schedule_splits_backward((orr_schedule_kind)schedule);
}

static bool recomputes(const orr_recompute *recompute) {
    return recompute->kind != ORR_RECOMPUTE_NONE && recompute->kind != ORR_RECOMPUTE_UNKNOWN;
}

static bool recompute_split(const orr_resolved *r, rule_note *note) {
    if (!recomputes(&r->plan.recompute) || !splits_backward(r->plan.pipe.schedule)) {
        return false;
    }
    orr_rule_hint(note, "use recompute none, or schedule 1f1b or interleaved");
    return orr_rule_say(note, "%s splits the backward pass and does not go with recompute",
                        orr_schedule_name((orr_schedule_kind)r->plan.pipe.schedule));
}

static bool has_mla(const orr_model *model) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].attention.kind == ORR_ATTENTION_MLA) {
            return true;
        }
    }
    return false;
}

static bool recompute_mla(const orr_resolved *r, rule_note *note) {
    const orr_recompute *c = &r->plan.recompute;
    if (c->kind != ORR_RECOMPUTE_SELECTIVE || (c->modules & ORR_MODULE_MLA_UP_PROJ) == 0 ||
        has_mla(r->model)) {
        return false;
    }
    orr_rule_hint(note, "leave mla_up_proj out");
    return orr_rule_say(note, "recompute names mla_up_proj, the model has no latent attention");
}

static bool recompute_chunk(const orr_resolved *r, rule_note *note) {
    const orr_recompute *c = &r->plan.recompute;
    uint32_t stages = orr_max_u32(1, orr_plan_stages(&r->plan));
    uint32_t chunk = (r->model->layers + stages - 1) / stages;
    if ((c->kind != ORR_RECOMPUTE_BLOCK && c->kind != ORR_RECOMPUTE_UNIFORM) ||
        c->layers <= chunk) {
        return false;
    }
    orr_rule_hint(note, "layers count per chunk: use %u or less", chunk);
    return orr_rule_say(note, "recompute of %u layers is more than the %u of a chunk", c->layers,
                        chunk);
}

static bool recompute_flash(const orr_resolved *r, rule_note *note) {
    const orr_recompute *c = &r->plan.recompute;
    if (c->kind != ORR_RECOMPUTE_SELECTIVE || c->modules != ORR_MODULE_CORE_ATTN ||
        r->plan.variant.attention != ORR_KERNEL_FLASH) {
        return false;
    }
    orr_rule_hint(note, "use recompute none");
    return orr_rule_say(note, "flash attention keeps no scores: recomputing it saves little");
}

/* ---- table ---------------------------------------------------------------------------------- */

static const plan_rule rules[] = {
    {"PIPE-LAYERS-01", ORR_RULE_ILLEGAL, "the layers divide over the stages as the layout says",
     place_layers},
    {"PIPE-LAYERS-02", ORR_RULE_ILLEGAL, "one way of placing layers is stated", place_both},
    {"PIPE-LAYOUT-01", ORR_RULE_ILLEGAL, "a layout string has pp x vpp stages", layout_stages},
    {"PIPE-LAYOUT-02", ORR_RULE_ILLEGAL, "a layout string has the model's layers and MTP depths",
     layout_layers},
    {"PIPE-LAYOUT-03", ORR_RULE_ILLEGAL, "MTP stands in the last chunk, not on rank 0", layout_mtp},
    {"PIPE-EMPTY-01", ORR_RULE_DOES_NOT_START, "every stage holds something", place_empty},
    {"SCH", ORR_RULE_ILLEGAL, "the schedule takes these stages, chunks and micro-batches",
     schedule_takes},
    {"PIPE-FILL-01", ORR_RULE_DOES_NOT_START, "the software takes as few micro-batches",
     pipe_refuses_few},
    {"PIPE-FILL-02", ORR_RULE_WARNING, "micro-batches fill the pipeline", pipe_unfilled},
    {"PIPE-VPP-01", ORR_RULE_DOES_NOT_START, "the software has virtual stages", vpp_refused},
    {"PIPE-VPP-02", ORR_RULE_DOES_NOT_START, "interleaving has pp > 1", vpp_alone},
    {"PIPE-VPP-03", ORR_RULE_WARNING, "interleaving has vpp > 1", vpp_single},
    {"PIPE-P2P-01", ORR_RULE_DOES_NOT_START, "interleaving over 2 stages overlaps transfers",
     p2p_two_stages},
    {"PIPE-P2P-02", ORR_RULE_WARNING, "overlap in warm-up and flush goes with group > pp",
     p2p_flush},
    {"REC-01", ORR_RULE_DOES_NOT_START, "schedules that split the backward pass do not recompute",
     recompute_split},
    {"REC-02", ORR_RULE_ILLEGAL, "recompute of mla_up_proj goes with latent attention",
     recompute_mla},
    {"REC-03", ORR_RULE_WARNING, "block:N and uniform:N stay within a chunk", recompute_chunk},
    {"REC-04", ORR_RULE_WARNING, "core attention is recomputed only where it keeps scores",
     recompute_flash},
};
const rule_list orr_rules_pipeline = {rules, sizeof rules / sizeof *rules};
