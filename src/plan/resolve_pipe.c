/* Pipeline: layout, virtual stages, schedule, and what runs beside compute. */
#include "plan/resolve_int.h"

typedef struct layout_word {
    const char *name;
    uint8_t placement, flags; /* flags 0: a placement */
} layout_word;

static void resolve_layout_word(resolver *r, orr_plan *plan, const char *text) {
    static const layout_word words[] = {
        {"even", ORR_PLACE_EVEN, 0},
        {"slots", ORR_PLACE_SLOTS, 0},
        {"cost-walk", ORR_PLACE_COST_WALK, 0},
        {"balanced", ORR_PLACE_BALANCED, 0},
        {"spread", ORR_PLACE_SPREAD, 0},
        {"embedding", 0, ORR_SPLIT_EMBEDDING},
        {"loss", 0, ORR_SPLIT_LOSS},
        {"embedding,loss", 0, ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS},
        {"loss,embedding", 0, ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS},
    };
    enum { WORDS = sizeof words / sizeof *words };
    const char *names[WORDS];
    for (int i = 0; i < WORDS; i++) {
        names[i] = words[i].name;
        if (!orr_name_equal(text, words[i].name)) {
            continue;
        }
        if (words[i].flags != 0) {
            plan->pipe.split_flags |= words[i].flags;
        } else if (orr_resolve_stated(r, KEY_PLACEMENT) &&
                   r->keys.placement != words[i].placement) {
            orr_resolve_problem(r, ORR_E_CONFLICT, KEY_LAYOUT, "leave one of them out",
                                "layout is %s, but placement is %s", words[i].name,
                                orr_plan_value_name(KEY_PLACEMENT, r->keys.placement));
        } else {
            plan->pipe.placement = words[i].placement;
        }
        return;
    }
    int near = orr_name_nearest(text, names, WORDS);
    orr_resolve_problem(
        r, ORR_E_SCHEMA, KEY_LAYOUT,
        orr_arena_format(
            r->arena,
            "%s%s%sit takes auto, even, slots, cost-walk, balanced, spread, embedding, "
            "loss, \"embedding,loss\", or a string such as \"Et*3|(tt|)*29m|L\"",
            near < 0 ? "" : "did you mean \"", near < 0 ? "" : names[near], near < 0 ? "" : "\"? "),
        "\"layout\" has no value \"%.60s\"", text);
}

static void resolve_layout(resolver *r, orr_plan *plan) {
    plan->pipe.placement =
        orr_resolve_stated(r, KEY_PLACEMENT) ? r->keys.placement : r->out->software->placement;
    if (r->keys.first_layers > 0 || r->keys.last_layers > 0) {
        plan->pipe.split_flags |= ORR_SPLIT_COUNTS;
        plan->pipe.first_layers = r->keys.first_layers;
        plan->pipe.last_layers = r->keys.last_layers;
    }
    const char *text = r->keys.layout;
    if (!orr_resolve_stated(r, KEY_LAYOUT)) {
        return;
    }
    if (*text == '\0' || strspn(text, "EtmL|,()*0123456789 ") != strlen(text)) {
        resolve_layout_word(r, plan, text);
        return;
    }
    orr_layout *layout = NULL;
    orr_err err = {0};
    if (orr_layout_read(r->arena, text, &layout, &err) != ORR_OK) {
        orr_resolve_foreign(r, KEY_LAYOUT, &err);
        return;
    }
    plan->layout = layout;
    uint64_t parts[3] = {layout->mtp_stage, layout->mtp_layers,
                         orr_hash(layout->layers, layout->stages * sizeof *layout->layers)};
    plan->pipe.layout_hash = orr_hash(parts, sizeof parts);
}

/* Chunks of one layer each: what leaving vpp blank means to some software. 0 where it does not
 * work out. */
static uint32_t one_layer_chunks(const orr_model *model, orr_plan *plan) {
    uint32_t pp = plan->pipe.pp;
    orr_plan trial = *plan;
    trial.pipe.schedule = ORR_SCHEDULE_INTERLEAVED;
    if (model->layers % pp == 0) {
        trial.pipe.vpp = model->layers / pp;
    } else if ((model->layers + 2) % pp == 0 && plan->pipe.split_flags == 0) {
        trial.pipe.vpp = (model->layers + 2) / pp;
        trial.pipe.split_flags = ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS;
    } else {
        return 0;
    }
    orr_schedule_spec spec = orr_plan_schedule(&trial);
    if (trial.pipe.vpp > ORR_MAX_VPP || trial.pipe.vpp < 2 || plan->layout != NULL ||
        !orr_plan_placeable(model, &trial) || orr_schedule_check(&spec, NULL, 0) != 0) {
        return 0;
    }
    plan->pipe.split_flags = trial.pipe.split_flags;
    return trial.pipe.vpp;
}

static void resolve_vpp(resolver *r, orr_plan *plan) {
    orr_pipe *pipe = &plan->pipe;
    if (orr_resolve_stated(r, KEY_VPP)) {
        pipe->vpp = r->keys.vpp;
        return;
    }
    const char *why = "not stated";
    uint32_t fixed =
        r->schedule_known ? orr_schedule_fixed_vpp((orr_schedule_kind)r->keys.schedule) : 0;
    bool interleaves = r->schedule_known && r->keys.schedule == ORR_SCHEDULE_INTERLEAVED;
    pipe->vpp = 1;
    if (fixed > 0) {
        pipe->vpp = fixed;
        why = "the schedule's";
    } else if (plan->layout != NULL && plan->layout->stages % pipe->pp == 0 &&
               plan->layout->stages / pipe->pp <= ORR_MAX_VPP) {
        pipe->vpp = plan->layout->stages / pipe->pp;
        why = "the layout's";
    } else if (pipe->pp > 1 &&
               (interleaves || (!r->schedule_known && r->out->software->interleaved_default))) {
        uint32_t chunks = one_layer_chunks(r->out->model, plan);
        pipe->vpp = chunks > 0 ? chunks : interleaves ? 2 : 1;
        why = chunks > 0 ? "the software's: one layer a chunk" : why;
    }
    orr_resolve_assume_count(r, KEY_VPP, pipe->vpp, why);
}

void orr_resolve_pipe(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_pipe *pipe = &plan->pipe;
    r->schedule_known = orr_resolve_stated(r, KEY_SCHEDULE) && k->schedule != SCHEDULE_AUTO;
    resolve_layout(r, plan);
    pipe->group = k->group;
    pipe->memory_limit = k->memory_limit;
    pipe->order = orr_resolve_stated(r, KEY_ORDER) ? k->order : ORR_ORDER_PP_LAST;
    resolve_vpp(r, plan);
    if (r->schedule_known) {
        pipe->schedule = k->schedule;
    } else {
        pipe->schedule = pipe->vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
        orr_resolve_assume(r, KEY_SCHEDULE, orr_plan_value_name(KEY_SCHEDULE, pipe->schedule),
                           pipe->vpp > 1 ? "the usual one where vpp > 1" : "the usual one");
    }
    if (pipe->pp > 1 && plan->layout == NULL && pipe->split_flags == 0 &&
        !orr_resolve_stated(r, KEY_PLACEMENT) && !orr_resolve_stated(r, KEY_LAYOUT)) {
        orr_resolve_assume(r, KEY_PLACEMENT, orr_plan_value_name(KEY_PLACEMENT, pipe->placement),
                           "the software's default");
    }
}

/* ---- overlap and transfers ------------------------------------------------------------------- */

static const char *overlap_text(resolver *r, uint32_t bits) {
    orr_text text = orr_text_new(r->arena, 64);
    for (uint32_t i = 0, n = 0; i < 4; i++) {
        if (bits >> i & 1) {
            orr_text_format(&text, "%s%s", n++ == 0 ? "" : ", ",
                            orr_plan_value_name(KEY_OVERLAP, i));
        }
    }
    return bits == 0 ? "none" : orr_text_done(&text);
}

/* "all" means all that there is: expert overlap merges forward and backward passes, which takes
 * experts, and virtual stages where there is a pipeline. */
static bool may_overlap_experts(const resolver *r, const orr_plan *plan) {
    return is_moe(r->out->model) && plan->split.ep > 1 &&
           (plan->pipe.pp == 1 ? plan->pipe.schedule == ORR_SCHEDULE_1F1B
                               : plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED);
}

orr_sureness orr_resolve_sureness(const resolver *r, const orr_plan *plan) {
    static const plan_key decisive[] = {KEY_RECOMPUTE, KEY_SOFTWARE, KEY_ATTENTION,  KEY_LOSS,
                                        KEY_PRECISION, KEY_SHARDING, KEY_GRAD_DTYPE, KEY_SEQ};
    if (!orr_resolve_stated(r, KEY_RECOMPUTE) || plan->recompute.kind == ORR_RECOMPUTE_UNKNOWN ||
        (!orr_resolve_stated(r, KEY_SOFTWARE) && !orr_resolve_stated(r, KEY_ATTENTION))) {
        return ORR_SURE_GUESSED;
    }
    for (size_t i = 0; i < sizeof decisive / sizeof *decisive; i++) {
        if (!orr_resolve_stated(r, decisive[i])) {
            return ORR_SURE_PARTLY;
        }
    }
    return ORR_SURE_STATED;
}

void orr_resolve_overlap(resolver *r, orr_plan *plan) {
    enum { ALL = ORR_OVERLAP_TP | ORR_OVERLAP_DP | ORR_OVERLAP_PP | ORR_OVERLAP_EP };
    const orr_software *software = r->out->software;
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED;
    if (orr_resolve_stated(r, KEY_OVERLAP)) {
        plan->overlap = r->keys.overlap;
        if (plan->overlap == ALL && !may_overlap_experts(r, plan)) {
            plan->overlap &= ~(uint32_t)ORR_OVERLAP_EP;
        }
    } else {
        bool tp = software->tp_overlap_fwd_frac > 0 || software->tp_overlap_bwd_frac > 0;
        bool plain = software->dp_overlap_unsharded && plan->shard.kind == ORR_SHARD_NONE;
        plan->overlap = (tp && plan->split.tp > 1 ? ORR_OVERLAP_TP : 0u) |
                        (software->dp_overlap_grads || plain ? ORR_OVERLAP_DP : 0u) |
                        (software->p2p_overlap && loops ? ORR_OVERLAP_PP : 0u);
        orr_resolve_assume(r, KEY_OVERLAP, overlap_text(r, plan->overlap),
                           "the software's default");
    }
    if (orr_resolve_stated(r, KEY_P2P)) {
        plan->pipe.p2p = r->keys.p2p;
        return;
    }
    plan->pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan->pipe.schedule);
    if (loops) {
        plan->pipe.p2p = (plan->overlap & ORR_OVERLAP_PP) != 0 ? ORR_P2P_OVERLAP : ORR_P2P_BLOCKING;
    }
    if (plan->pipe.pp > 1) {
        orr_resolve_assume(r, KEY_P2P, orr_plan_value_name(KEY_P2P, plan->pipe.p2p),
                           "the schedule's");
    }
}
