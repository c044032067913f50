/* Parameters and model FLOPs, exact by construction. */
#include "base/mem.h"
#include "model/model.h"

static uint64_t norm_params(uint64_t width, uint8_t norm, uint8_t bare) {
    if (norm == ORR_NORM_RMS) {
        return width;
    }
    return bare == 0 ? 2 * width : bare == 1 ? width : 0;
}

static uint64_t gqa_params(uint64_t hidden, const orr_attention *a) {
    uint64_t q = (uint64_t)a->heads * a->head_dim;
    uint64_t k = (uint64_t)a->kv_heads * a->head_dim;
    uint64_t v = (uint64_t)a->kv_heads * a->v_dim;
    uint64_t out = (uint64_t)a->heads * a->v_dim;
    uint64_t total = hidden * (q + k + v) + out * hidden;
    total += a->output_gate ? hidden * out : 0;
    total += a->bias_qkv ? q + k + v : 0;
    total += a->bias_out ? hidden : 0;
    total += a->qk_norm == ORR_QK_NORM_HEAD ? 2 * (uint64_t)a->head_dim : 0;
    total += a->qk_norm == ORR_QK_NORM_ALL ? q + k : 0;
    total += a->sinks ? a->heads : 0;
    return total;
}

static uint64_t mla_params(uint64_t hidden, const orr_attention *a) {
    uint64_t q = (uint64_t)a->heads * a->head_dim;
    uint64_t nope_and_v = (uint64_t)a->heads * (a->head_dim - a->rope_dim + a->v_dim);
    uint64_t total = a->q_lora > 0 ? hidden * a->q_lora + a->q_lora + a->q_lora * q : hidden * q;
    total += hidden * (a->kv_lora + a->rope_dim) + a->kv_lora + a->kv_lora * nope_and_v;
    total += (uint64_t)a->heads * a->v_dim * hidden;
    total += a->bias_qkv ? a->q_lora + a->kv_lora + a->rope_dim : 0;
    total += a->bias_out ? hidden : 0;
    return total;
}

static uint64_t linear_params(uint64_t hidden, const orr_attention *a) {
    uint64_t keys = (uint64_t)a->kv_heads * a->head_dim;
    uint64_t values = (uint64_t)a->heads * a->v_dim;
    bool mamba = a->linear == ORR_LINEAR_MAMBA2;
    uint64_t scalars = (mamba ? 1 : 2) * (uint64_t)a->heads;
    uint64_t total = hidden * (2 * keys + 2 * values + scalars);
    total += (2 * keys + values) * (a->conv + (mamba ? 1u : 0u)); /* Mamba's has a bias */
    total += mamba ? 3 * (uint64_t)a->heads + values : 2 * (uint64_t)a->heads + a->v_dim;
    return total + values * hidden;
}

static uint64_t attention_params(uint64_t hidden, const orr_attention *a) {
    switch ((orr_attention_kind)a->kind) {
    case ORR_ATTENTION_GQA: return gqa_params(hidden, a);
    case ORR_ATTENTION_MLA: return mla_params(hidden, a);
    case ORR_ATTENTION_LINEAR: return linear_params(hidden, a);
    case ORR_ATTENTION_NONE: return 0;
    }
    return 0;
}

/* One MLP from `width` through `ffn` back. */
static uint64_t mlp_params(uint64_t width, uint64_t ffn, bool gated, bool bias) {
    uint64_t up = gated ? 2 * ffn : ffn;
    return width * (up + ffn) + (bias ? up + width : 0);
}

static uint64_t expert_params(const orr_layer *layer) {
    const orr_mlp *m = &layer->mlp;
    uint64_t width = m->latent > 0 ? m->latent : layer->hidden;
    return mlp_params(width, m->expert_ffn, m->gated, m->bias);
}

/* Everything of an MLP but the routed experts. */
static uint64_t fixed_mlp_params(const orr_layer *layer) {
    const orr_mlp *m = &layer->mlp;
    uint64_t hidden = layer->hidden;
    if (m->experts == 0) {
        return m->ffn == 0 ? 0 : mlp_params(hidden, m->ffn, m->gated, m->bias);
    }
    uint64_t total = hidden * m->experts + (m->bias ? m->experts : 0);
    total += m->shared_ffn > 0 ? mlp_params(hidden, m->shared_ffn, m->gated, m->bias) : 0;
    total += m->shared_gate ? hidden : 0;
    return total + 2 * hidden * m->latent;
}

uint64_t orr_layer_params(const orr_layer *layer) {
    return attention_params(layer->hidden, &layer->attention) + fixed_mlp_params(layer) +
           layer->mlp.experts * expert_params(layer) +
           layer->norms * norm_params(layer->hidden, layer->norm, layer->norm_bare);
}

static uint64_t embedding_params(const orr_model *model) {
    uint64_t rows = (uint64_t)model->vocab + model->token_types;
    rows += model->position == ORR_POSITION_LEARNED ? model->max_seq : 0;
    uint64_t norm = norm_params(model->hidden, model->norm, model->norm_bare);
    return rows * model->hidden + (model->embedding_norm ? norm : 0);
}

/* The final norm belongs to it; an encoder has a dense transform with a norm instead. */
static uint64_t head_params(const orr_model *model) {
    uint64_t hidden = model->hidden;
    uint64_t total = norm_params(hidden, model->norm, model->norm_bare);
    total += model->encoder ? hidden * hidden + hidden : 0;
    total += model->tied ? 0 : model->vocab * hidden;
    return total + (model->head_bias ? model->vocab : 0);
}

orr_model_params orr_model_count(const orr_model *model) {
    orr_model_params p = {.embedding = embedding_params(model), .head = head_params(model)};
    uint64_t idle = 0; /* routed experts that a token does not use */
    p.total = p.embedding + p.head;
    for (uint32_t i = 0; i < model->layers; i++) {
        const orr_layer *layer = &model->kind[model->layer_kind[i]];
        uint64_t one = expert_params(layer);
        p.total += orr_layer_params(layer);
        p.experts += layer->mlp.experts * one;
        idle += (layer->mlp.experts - layer->mlp.topk) * one;
    }
    p.active = p.total - idle;
    if (model->mtp_layers > 0) {
        const orr_layer *last = &model->kind[model->layer_kind[model->layers - 1]];
        uint64_t hidden = model->hidden;
        uint64_t norm = norm_params(hidden, model->norm, model->norm_bare);
        p.mtp = model->mtp_layers * (orr_layer_params(last) + 2 * hidden * hidden + 3 * norm);
    }
    return p;
}

/* Keys that a query meets on average. */
static double keys_seen(const orr_attention *a, double seq, bool causal) {
    double window = a->window > 0 && a->window < seq ? a->window : seq;
    if (!causal || !a->causal) {
        return window;
    }
    return window - window * window / (2.0 * seq);
}

/* Multiply-adds a token, forward: with weights, and among activations. */
typedef struct macs {
    double weights, scores;
} macs;

static macs layer_macs(const orr_layer *layer, double seq, bool causal) {
    const orr_attention *a = &layer->attention;
    const orr_mlp *m = &layer->mlp;
    double idle = (double)(m->experts - m->topk) * (double)expert_params(layer);
    /* Vectors (norms, biases) take no matmul, but are below a thousandth of the matrices. */
    macs sum = {.weights = (double)orr_layer_params(layer) - idle -
                           (double)(layer->norms *
                                    norm_params(layer->hidden, layer->norm, layer->norm_bare))};
    if (a->kind == ORR_ATTENTION_GQA || a->kind == ORR_ATTENTION_MLA) {
        sum.scores = (double)a->heads * (a->head_dim + a->v_dim) * keys_seen(a, seq, causal);
    } else if (a->kind == ORR_ATTENTION_LINEAR) {
        double products = a->linear == ORR_LINEAR_MAMBA2 ? 2 : 3; /* update, read, correction */
        sum.scores = products * a->heads * a->head_dim * (double)a->v_dim;
    }
    return sum;
}

static void add_macs(macs *sum, macs layer, double count) {
    sum->weights += count * layer.weights;
    sum->scores += count * layer.scores;
}

static macs model_macs(const orr_model *model, uint32_t seq, bool causal) {
    double head = (double)model->vocab * model->hidden;
    macs sum = {.weights = head + (model->encoder ? (double)model->hidden * model->hidden : 0)};
    ORR_UNSET macs of_kind[ORR_MAX_LAYER_KINDS];
    for (uint32_t k = 0; k < model->kind_count && k < ORR_MAX_LAYER_KINDS; k++) {
        of_kind[k] = layer_macs(&model->kind[k], seq, causal);
    }
    for (uint32_t i = 0; i < model->layers; i++) {
        add_macs(&sum, of_kind[model->layer_kind[i]], 1);
    }
    if (model->mtp_layers > 0) {
        double join = 2.0 * model->hidden * model->hidden;
        add_macs(&sum, of_kind[model->layer_kind[model->layers - 1]], model->mtp_layers);
        sum.weights += model->mtp_layers * (join + head);
    }
    return sum;
}

double orr_model_flops_per_token(const orr_model *model, uint32_t seq, bool causal) {
    macs sum = model_macs(model, seq, causal);
    return 3 * 2 * (sum.weights + sum.scores);
}

double orr_model_frozen_flops_per_token(const orr_model *model, uint32_t seq, bool causal) {
    macs sum = model_macs(model, seq, causal);
    return 2 * 2 * sum.weights + 3 * 2 * sum.scores;
}
