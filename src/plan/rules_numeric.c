/* Rules of number formats and kernels. */
#include "plan/plan_int.h"

/* ---- formats -------------------------------------------------------------------------------- */

static bool has_rate(const orr_accelerator *a, uint8_t precision) {
    const double *peak = a->peak_flops;
    switch ((orr_precision)precision) {
    case ORR_PRECISION_BF16: return peak[ORR_BF16] > 0;
    case ORR_PRECISION_FP16: return peak[ORR_FP16] > 0;
    case ORR_PRECISION_FP8:
    case ORR_PRECISION_FP8_CS: return peak[ORR_FP8] > 0;
    case ORR_PRECISION_FP8_MX: return peak[ORR_MXFP8] > 0;
    case ORR_PRECISION_FP8_BLOCKWISE: return peak[ORR_FP8_BLOCK] > 0 || peak[ORR_FP8] > 0;
    case ORR_PRECISION_NVFP4: return peak[ORR_NVFP4] > 0;
    case ORR_PRECISION_COUNT: break;
    }
    return false;
}

static bool num_supported(const orr_resolved *r, rule_note *note) {
    const orr_accelerator *a = r->cluster->accelerator;
    if (has_rate(a, r->plan.numeric.precision)) {
        return false;
    }
    if (note != NULL) {
        orr_text text = orr_text_new(note->arena, 200);
        for (uint8_t p = 0, n = 0; p < ORR_PRECISION_COUNT; p++) {
            if (has_rate(a, p)) {
                orr_text_format(&text, "%s%s", n++ == 0 ? "" : ", ",
                                orr_plan_value_name(KEY_PRECISION, p));
            }
        }
        orr_rule_hint(note, "it has %s", orr_text_done(&text));
    }
    return orr_rule_say(note, "%s has no matmuls in %s", a->name,
                        orr_plan_value_name(KEY_PRECISION, r->plan.numeric.precision));
}

/* ---- widths of 8-bit and 4-bit matmuls --------------------------------------------------------
 */

static uint32_t alignment(uint8_t precision) {
    return precision == ORR_PRECISION_FP8_MX || precision == ORR_PRECISION_NVFP4 ? 32 : 16;
}

typedef struct width {
    const char *what;
    uint64_t value;
} width;

static bool misaligned(const width *widths, size_t count, uint32_t align, width *bad) {
    for (size_t i = 0; i < count; i++) {
        if (widths[i].value % align != 0) {
            *bad = widths[i];
            return true;
        }
    }
    return false;
}

static bool bad_width(const orr_resolved *r, uint32_t align, width *bad) {
    const orr_split *s = &r->plan.split;
    for (uint32_t i = 0; i < r->model->kind_count; i++) {
        const orr_layer *l = &r->model->kind[i];
        const orr_attention *a = &l->attention;
        const width widths[] = {
            {"the hidden size", l->hidden},
            {"the local query width", (uint64_t)a->heads / s->tp * a->head_dim},
            {"the local output width", (uint64_t)a->heads / s->tp * a->v_dim},
            {"the local key-value width",
             (uint64_t)orr_max_u32(1, a->kv_heads / s->tp) * a->head_dim},
            {"the query rank", a->q_lora},
            {"the latent width", a->kv_lora == 0 ? 0 : (uint64_t)a->kv_lora + a->rope_dim},
            {"the local feed-forward width", l->mlp.ffn / s->tp},
            {"the local shared-expert width", l->mlp.shared_ffn / s->tp},
            {"the local expert width", l->mlp.expert_ffn / s->etp},
        };
        if (misaligned(widths, sizeof widths / sizeof *widths, align, bad)) {
            return true;
        }
    }
    return false;
}

static bool num_widths(const orr_resolved *r, rule_note *note) {
    width bad;
    uint32_t align = alignment(r->plan.numeric.precision);
    if (!is_fp8(r->plan.numeric.precision) || !bad_width(r, align, &bad)) {
        return false;
    }
    orr_rule_hint(note, "use precision bf16, or a smaller tp or etp");
    return orr_rule_say(note, "%s takes multiples of %u; %s is %llu",
                        orr_plan_value_name(KEY_PRECISION, r->plan.numeric.precision), align,
                        bad.what, (unsigned long long)bad.value);
}

static bool num_tokens(const orr_resolved *r, rule_note *note) {
    uint32_t align = alignment(r->plan.numeric.precision);
    uint64_t tokens = orr_plan_tokens(&r->plan);
    if (!is_fp8(r->plan.numeric.precision) || tokens % align == 0) {
        return false;
    }
    orr_rule_hint(note, "use a seq that is a multiple of %u", align * r->plan.split.cp);
    return orr_rule_say(note, "%s takes multiples of %u; a micro-batch has %llu tokens a rank",
                        orr_plan_value_name(KEY_PRECISION, r->plan.numeric.precision), align,
                        (unsigned long long)tokens);
}

/* ---- parameters -------------------------------------------------------------------------------
 */

static bool num_fp8_params(const orr_resolved *r, rule_note *note) {
    if (r->plan.numeric.param_bytes != 1 || is_fp8(r->plan.numeric.precision)) {
        return false;
    }
    orr_rule_hint(note, "use fp8_params off");
    return orr_rule_say(note, "fp8_params goes with an fp8 precision, not %s",
                        orr_plan_value_name(KEY_PRECISION, r->plan.numeric.precision));
}

static bool num_master(const orr_resolved *r, rule_note *note) {
    const orr_numeric *n = &r->plan.numeric;
    if (n->master_bytes != 0 || n->param_bytes >= 4) {
        return false;
    }
    orr_rule_hint(note, "use master_dtype fp32 or 16bit");
    return orr_rule_say(note, "updates of %u-bit parameters are lost without main parameters",
                        n->param_bytes * 8u);
}

/* ---- attention kernels ------------------------------------------------------------------------
 */

enum { FLASH_MAX_HEAD = 256 };

static bool uses_flash(const orr_resolved *r) {
    return r->plan.variant.attention == ORR_KERNEL_FLASH;
}

static bool attention_head(const orr_resolved *r, rule_note *note) {
    for (uint32_t i = 0; i < r->model->kind_count && uses_flash(r); i++) {
        const orr_attention *a = &r->model->kind[i].attention;
        bool soft = a->kind == ORR_ATTENTION_GQA || a->kind == ORR_ATTENTION_MLA;
        if (soft && (a->head_dim > FLASH_MAX_HEAD || a->head_dim % 8 != 0)) {
            orr_rule_hint(note, "use attention unfused");
            return orr_rule_say(note,
                                "flash attention takes head sizes that are multiples of 8 up to "
                                "%d; it is %u",
                                FLASH_MAX_HEAD, a->head_dim);
        }
    }
    return false;
}

static bool attention_device(const orr_resolved *r, rule_note *note) {
    const orr_accelerator *a = r->cluster->accelerator;
    if (!uses_flash(r) || a->arch > ORR_ARCH_TURING) {
        return false;
    }
    orr_rule_hint(note, "use attention unfused");
    return orr_rule_say(note, "there is no flash attention for %s", a->name);
}

static bool attention_low(const orr_resolved *r, rule_note *note) {
    const orr_accelerator *a = r->cluster->accelerator;
    uint8_t precision = r->plan.numeric.precision;
    if (!r->plan.variant.fp8_attention) {
        return false;
    }
    orr_rule_hint(note, "use fp8_attention off");
    if (precision == ORR_PRECISION_BF16 || precision == ORR_PRECISION_FP16) {
        return orr_rule_say(note, "fp8_attention goes with an fp8 or fp4 precision, not %s",
                            orr_plan_value_name(KEY_PRECISION, precision));
    }
    if (!uses_flash(r)) {
        return orr_rule_say(note, "only fused attention runs in fp8");
    }
    if (a->arch != ORR_ARCH_HOPPER && a->arch != ORR_ARCH_BLACKWELL) {
        return orr_rule_say(note, "there is no fp8 attention to train with for %s", a->name);
    }
    return false;
}

/* ---- table ---------------------------------------------------------------------------------- */

static const plan_rule rules[] = {
    {"NUM-PREC-01", ORR_RULE_DOES_NOT_START, "the accelerator computes in the precision",
     num_supported},
    {"NUM-FP8-01", ORR_RULE_DOES_NOT_START,
     "widths of fp8 matmuls are multiples of 16 (mx, fp4: "
     "32)",
     num_widths},
    {"NUM-FP8-02", ORR_RULE_DOES_NOT_START,
     "tokens of fp8 matmuls are multiples of 16 (mx, fp4: "
     "32)",
     num_tokens},
    {"NUM-FP8-03", ORR_RULE_ILLEGAL, "fp8_params goes with an fp8 precision", num_fp8_params},
    {"NUM-OPT-01", ORR_RULE_WARNING, "16-bit parameters have main parameters", num_master},
    {"ATTN-01", ORR_RULE_DOES_NOT_START, "flash attention has the head size", attention_head},
    {"ATTN-02", ORR_RULE_DOES_NOT_START, "flash attention exists for the accelerator",
     attention_device},
    {"ATTN-03", ORR_RULE_DOES_NOT_START,
     "fp8 attention is fused, beside fp8 or fp4 matmuls, on Hopper and Blackwell", attention_low},
};
const rule_list orr_rules_numeric = {rules, sizeof rules / sizeof *rules};
