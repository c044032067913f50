/* What Megatron-LM settings mean together, as plan keys. Follows validate_args of
 * megatron/training/arguments.py (core_v0.12 to main of August 2026). */
#include "exchange/megatron_int.h"

#include <string.h>

static void put_targets(megatron *m) {
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        const megatron_arg *arg = &orr_megatron_args[i];
        if (arg->target == NULL || strncmp(arg->target, "model.", 6) == 0 ||
            !orr_megatron_has(m, arg->name)) {
            continue;
        }
        orr_megatron_put_int(m, arg->target, arg->name);
    }
}

bool orr_megatron_has_experts(const megatron *m) {
    return orr_megatron_int(m, "num-experts") > 0 ||
           (orr_megatron_given(m, "num-layers") == NULL &&
            orr_megatron_int(m, "expert-model-parallel-size") > 1);
}

/* ---- what contradicts ------------------------------------------------------------------------ */

static bool more_than(const megatron *m, const char *name, int64_t value) {
    return orr_megatron_given(m, name) != NULL && orr_megatron_int(m, name) > value;
}

/* The commonest mistakes with sizes, where a plan would not show them: Megatron-LM stops at these,
 * or drops a setting without a word. The rest are rules of plans. */
static void warn_contradictions(megatron *m) {
    bool tp = orr_megatron_int(m, "tensor-model-parallel-size") != 1;
    bool pp = orr_megatron_int(m, "pipeline-model-parallel-size") != 1;
    bool bf16 = orr_megatron_flag(m, "bf16"), fp16 = orr_megatron_flag(m, "fp16");
    bool experts = orr_megatron_has_experts(m);
    bool optimizer = orr_megatron_flag(m, "use-distributed-optimizer") ||
                     orr_megatron_flag(m, "use-megatron-fsdp");
    bool selective = orr_megatron_is(m, "recompute-granularity", "selective");
    const struct {
        bool is, refused;
        const char *at, *what;
    } rows[] = {
        {bf16 && fp16, true, "fp16", "bf16 and fp16 are both on: only one may be"},
        {!bf16 && !fp16 && pp, false, "pipeline-model-parallel-size",
         "a pipeline needs a number format for its transfers: neither bf16 nor fp16 is on"},
        {orr_megatron_flag(m, "sequence-parallel") && !tp &&
             orr_megatron_line(m, "sequence-parallel") > 0,
         false, "sequence-parallel",
         "sequence parallelism without tensor parallelism has no effect"},
        {more_than(m, "num-virtual-stages-per-pipeline-rank", 1) && !pp, true,
         "num-virtual-stages-per-pipeline-rank",
         "virtual stages need a pipeline: pipeline-model-parallel-size is 1"},
        {more_than(m, "num-layers-per-virtual-pipeline-stage", 0) && !pp, true,
         "num-layers-per-virtual-pipeline-stage",
         "virtual stages need a pipeline: pipeline-model-parallel-size is 1"},
        {more_than(m, "num-layers-per-virtual-pipeline-stage", 0) &&
             more_than(m, "num-virtual-stages-per-pipeline-rank", 0),
         true, "num-virtual-stages-per-pipeline-rank",
         "layers of a virtual stage and stages of a rank are both given: only one may be"},
        {more_than(m, "expert-model-parallel-size", 1) && !experts, true,
         "expert-model-parallel-size",
         "expert parallelism without experts: num-experts is not given"},
        {orr_megatron_flag(m, "grad-reduce-in-bf16") &&
             orr_megatron_flag(m, "accumulate-allreduce-grads-in-fp32"),
         false, "grad-reduce-in-bf16",
         "grad-reduce-in-bf16 and accumulate-allreduce-grads-in-fp32 contradict: bf16 is taken"},
        {orr_megatron_flag(m, "overlap-param-gather") && !optimizer &&
             orr_megatron_line(m, "overlap-param-gather") > 0,
         true, "overlap-param-gather",
         "overlap-param-gather needs the distributed optimizer, which is off"},
        {orr_megatron_flag(m, "use-torch-fsdp2") && orr_megatron_flag(m, "use-megatron-fsdp"), true,
         "use-torch-fsdp2", "two kinds of FSDP are on: only one may be"},
        {selective && orr_megatron_given(m, "recompute-method") != NULL, false, "recompute-method",
         "recompute-method is of full recompute: it means nothing beside selective"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is) {
            orr_import_refuse(m->im, orr_megatron_line(m, rows[i].at), rows[i].refused,
                              rows[i].what);
        }
    }
}

void orr_megatron_keys(importer *im, const settings *list, const megatron_ground *ground) {
    megatron m = {.im = im, .ground = ground};
    m.given = ORR_NEW_ARRAY(im->arena, const setting *, orr_megatron_arg_count);
    for (size_t i = 0; i < list->count; i++) {
        orr_megatron_gather(&m, &list->at[i]);
    }
    warn_contradictions(&m);
    orr_megatron_model(&m);
    put_targets(&m);
    orr_megatron_pipeline(&m);
    orr_megatron_split(&m);
    orr_megatron_batch(&m);
    orr_megatron_precision(&m);
    orr_megatron_sharding(&m);
    orr_megatron_overlap(&m);
    orr_megatron_recompute(&m);
    orr_megatron_offload(&m);
    orr_megatron_kernels(&m);
}
