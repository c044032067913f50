/* The builder's helpers: see lower_int.h. */
#include "base/num.h"
#include "program/lower_int.h"

static orr_lane *lane_of(orr_builder *b, orr_phase phase) {
    return phase == ORR_PHASE_FORWARD      ? &b->forward
           : phase == ORR_PHASE_INPUT_GRAD ? &b->backward
                                           : &b->weight;
}

/* A new op at the end of a lane, waiting for the lane's tail. */
static orr_op *push(orr_builder *b, orr_phase phase, orr_op op) {
    orr_lane *lane = lane_of(b, phase);
    if (lane->count == ORR_MAX_LANE) {
        b->overflow = true;
        return &lane->op[ORR_MAX_LANE - 1];
    }
    op.phase = (uint8_t)phase;
    op.modules = phase == ORR_PHASE_FORWARD ? b->modules : 0;
    op.dep[0] = lane->tail;
    op.dep[1] = lane->join;
    lane->join = -1;
    lane->tail = (int16_t)lane->count;
    lane->op[lane->count] = op;
    return &lane->op[lane->count++];
}

void orr_add_op(orr_builder *b, orr_phase phase, orr_op op) {
    push(b, phase, op);
    b->host_ops += phase == ORR_PHASE_FORWARD ? 1 : 0;
}

void orr_add_comm(orr_builder *b, orr_phase phase, orr_comm comm) {
    if (comm.size < 2 || comm.bytes == 0) {
        return;
    }
    orr_op op = {.kind = ORR_OP_COLLECTIVE,
                 .stream = comm.stream,
                 .class = comm.class,
                 .dtype = b->wide_dtype,
                 .sub = comm.kind,
                 .name = comm.name};
    op.shape.comm.rank_bytes = comm.bytes;
    op.shape.comm.size = comm.size;
    op.shape.comm.stride = comm.stride;
    op.shape.comm.count = comm.count > 1 ? comm.count : 1;
    op.shape.comm.routing = comm.routing;
    push(b, phase, op);
    if (phase == ORR_PHASE_FORWARD) {
        b->host_ops += op.shape.comm.count;
    }
}

void orr_add_tp(orr_builder *b, orr_phase phase, uint16_t name, orr_collective kind,
                uint64_t bytes) {
    orr_add_comm(b, phase,
                 (orr_comm){.name = name,
                            .stream = ORR_STREAM_TP,
                            .class = ORR_CLASS_TP,
                            .kind = (uint8_t)kind,
                            .bytes = bytes,
                            .size = b->key->split.tp,
                            .stride = 1});
}

void orr_add_gemm(orr_builder *b, orr_phase phase, orr_product p) {
    const orr_variant *variant = &b->key->variant;
    uint64_t batch = p.batch ? p.batch : 1;
    bool accumulates = phase == ORR_PHASE_WEIGHT_GRAD && p.class == ORR_CLASS_GEMM &&
                       variant->grad_fp32 && variant->fused_grad_accumulation;
    /* groups padded to one capacity are one batched product */
    bool ragged = p.grouped && variant->capacity == 0;
    orr_op op = {.kind = ragged ? ORR_OP_GROUPED_GEMM : ORR_OP_GEMM,
                 .class = p.class,
                 .dtype = p.dtype,
                 .out_bytes = accumulates ? 8 : 2,
                 .name = p.name};
    op.shape.gemm.m = p.m;
    op.shape.gemm.n = p.n;
    op.shape.gemm.k = p.k;
    op.shape.gemm.batch = batch;
    double products = (double)p.m * (double)p.n * (double)p.k;
    if (!p.grouped) {
        products *= (double)batch;
    } else if (phase == ORR_PHASE_WEIGHT_GRAD) {
        op.shape.gemm.k = orr_div_up_u64(p.k, batch);
    } else {
        op.shape.gemm.m = orr_div_up_u64(p.m, batch);
    }
    op.flops = 2 * products;
    push(b, phase, op);
    if (phase == ORR_PHASE_FORWARD) {
        b->host_ops += 1;
    }
}

void orr_add_memory(orr_builder *b, orr_phase phase, uint16_t name, orr_class class,
                    orr_memop family, double bytes, uint32_t kernels) {
    if (!(bytes > 0)) {
        return;
    }
    orr_op op = {.kind = ORR_OP_MEMORY,
                 .class = (uint8_t) class,
                 .dtype = b->wide_dtype,
                 .sub = (uint8_t)family,
                 .name = name,
                 .bytes = bytes};
    op.shape.memory.kernels = kernels;
    push(b, phase, op);
    if (phase == ORR_PHASE_FORWARD) {
        b->host_ops += kernels;
    }
}

/* Quantising a linear's input (forward) or output gradient: read 2 B, write two 1 B copies. A
 * compiler that fuses it into what makes the values writes these alone. */
static void add_cast(orr_builder *b, orr_phase phase, const orr_linear *l, uint64_t elements) {
    static const double CAST_BYTES = 4, FUSED_BYTES = 2;
    double bytes = b->key->variant.fused_casts ? FUSED_BYTES : CAST_BYTES;
    if (b->low && !l->wide) {
        orr_add_memory(b, phase, l->name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_CAST,
                       bytes * (double)elements, 1);
    }
}

static uint64_t wire_bytes(const orr_builder *b, const orr_linear *l, uint64_t elements) {
    return l->wide ? 2 * elements : (uint64_t)(b->element_bytes * (double)elements + 0.5);
}

/* A frozen weight that rests in few bits is written out in 16 before each use. */
static void add_unpack(orr_builder *b, orr_phase phase, const orr_linear *l) {
    if (b->frozen && b->key->lora.base != ORR_BASE_16BIT && !l->wide) {
        uint64_t weights = l->out * l->in, count = l->expert ? b->size.experts : 1;
        orr_add_memory(b, phase, l->name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_CAST,
                       (2 + orr_base_bytes(b->key->lora.base)) * (double)(weights * count),
                       (uint32_t)count);
        b->unpacked = orr_max_u64(b->unpacked, weights);
    }
}

static orr_product product_of(const orr_builder *b, const orr_linear *l) {
    return (orr_product){.name = l->name,
                         .class = ORR_CLASS_GEMM,
                         .dtype = l->wide ? b->wide_dtype : b->gemm_dtype,
                         .grouped = l->expert,
                         .batch = l->expert ? b->size.experts : 1};
}

static void add_forward(orr_builder *b, const orr_linear *l) {
    orr_product p = product_of(b, l);
    add_unpack(b, ORR_PHASE_FORWARD, l);
    p.m = l->tokens;
    p.n = l->out;
    p.k = l->in;
    orr_add_gemm(b, ORR_PHASE_FORWARD, p);
}

static void add_input_grad(orr_builder *b, const orr_linear *l) {
    orr_product p = product_of(b, l);
    add_unpack(b, ORR_PHASE_INPUT_GRAD, l);
    p.m = l->tokens;
    p.n = l->in;
    p.k = l->out;
    orr_add_gemm(b, ORR_PHASE_INPUT_GRAD, p);
}

/* Waits for the output gradient, as the input-gradient GEMM at `twin` of the backward lane does,
 * and not for other weight gradients. */
static void add_weight_grad(orr_builder *b, const orr_linear *l, uint32_t twin) {
    orr_product p = product_of(b, l);
    if (b->frozen) {
        return;
    }
    p.m = l->out;
    p.n = l->in;
    p.k = l->tokens;
    b->weight.tail = (int16_t)(-2 - (int)twin);
    b->weight.join = -1;
    orr_add_gemm(b, ORR_PHASE_WEIGHT_GRAD, p);
}

void orr_add_column(orr_builder *b, orr_linear l) {
    bool gathers = b->sequence && !l.lone, reduces = b->tensor && !b->sequence && !l.lone;
    uint64_t whole = l.tokens * l.in;
    add_cast(b, ORR_PHASE_FORWARD, &l, gathers ? b->size.sharded * l.in : whole);
    if (gathers) {
        orr_add_tp(b, ORR_PHASE_FORWARD, l.name, ORR_ALL_GATHER, wire_bytes(b, &l, whole));
    }
    add_forward(b, &l);
    if (gathers || reduces) {
        orr_add_tp(b, ORR_PHASE_INPUT_GRAD, l.name, gathers ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE,
                   2 * whole);
    }
    uint32_t twin = b->backward.count;
    add_input_grad(b, &l);
    add_cast(b, ORR_PHASE_INPUT_GRAD, &l, l.tokens * l.out);
    add_weight_grad(b, &l, twin);
    if (gathers && !b->frozen) { /* the input was kept as a shard */
        int16_t product = (int16_t)(b->weight.count - 1);
        b->weight.tail = product;
        orr_add_tp(b, ORR_PHASE_WEIGHT_GRAD, l.name, ORR_ALL_GATHER, wire_bytes(b, &l, whole));
    }
}

void orr_add_row(orr_builder *b, orr_linear l) {
    bool scatters = b->sequence && !l.lone, reduces = b->tensor && !b->sequence && !l.lone;
    uint64_t whole = l.tokens * l.out;
    add_cast(b, ORR_PHASE_FORWARD, &l, l.tokens * l.in);
    add_forward(b, &l);
    if (scatters || reduces) {
        orr_add_tp(b, ORR_PHASE_FORWARD, l.name, scatters ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE,
                   2 * whole);
    }
    uint32_t twin = b->backward.count;
    add_input_grad(b, &l);
    if (scatters) {
        orr_add_tp(b, ORR_PHASE_INPUT_GRAD, l.name, ORR_ALL_GATHER, wire_bytes(b, &l, whole));
    }
    add_cast(b, ORR_PHASE_INPUT_GRAD, &l, scatters ? b->size.sharded * l.out : whole);
    add_weight_grad(b, &l, twin);
}

void orr_add_linear(orr_builder *b, orr_linear l) {
    l.lone = 1;
    orr_add_column(b, l);
}

bool orr_adapts(const orr_builder *b, uint32_t target) {
    return b->frozen && (b->key->lora.targets & target) != 0;
}

static void add_narrow(orr_builder *b, orr_phase phase, const orr_linear *l, uint64_t m, uint64_t n,
                       uint64_t k) {
    orr_add_gemm(b, phase,
                 (orr_product){.name = ORR_N_LORA,
                               .class = ORR_CLASS_GEMM,
                               .dtype = b->wide_dtype,
                               .grouped = l->expert,
                               .m = m,
                               .n = n,
                               .k = k,
                               .batch = l->expert ? b->size.experts : 1});
}

/* in -> rank -> out, added to the linear's output; backward ops are in forward order. Over TP both
 * matrices are cut, the first along the rank, or where its input is cut along that; the narrow
 * product is gathered or summed. */
static void add_adapter_ops(orr_builder *b, orr_adapter_kind kind, const orr_linear *l) {
    uint64_t rank = b->key->lora.rank, narrow = 2 * l->tokens * rank;
    bool split = b->tensor && kind != ORR_ADAPTER_LONE, column = kind == ORR_ADAPTER_COLUMN;
    uint64_t t = split ? b->key->split.tp : 1, cut = orr_div_up_u64(rank, t);
    uint64_t first = column ? cut : rank, second = column ? l->out : orr_div_up_u64(l->out, t);
    double in = (double)l->tokens * (double)l->in, out = (double)l->tokens * (double)l->out;
    add_narrow(b, ORR_PHASE_FORWARD, l, l->tokens, first, l->in);
    add_narrow(b, ORR_PHASE_INPUT_GRAD, l, l->tokens, l->in, first);
    b->weight.tail = b->weight.join = -1;
    add_narrow(b, ORR_PHASE_WEIGHT_GRAD, l, first, l->in, l->tokens);
    if (split) {
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_LORA, column ? ORR_ALL_GATHER : ORR_ALL_REDUCE,
                   narrow);
        orr_add_tp(b, ORR_PHASE_INPUT_GRAD, ORR_N_LORA,
                   column ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE, narrow);
    }
    if (column && b->sequence) { /* the input was kept as a shard */
        orr_add_tp(b, ORR_PHASE_WEIGHT_GRAD, ORR_N_LORA, ORR_ALL_GATHER, 2 * (uint64_t)in);
    }
    add_narrow(b, ORR_PHASE_FORWARD, l, l->tokens, second, rank);
    add_narrow(b, ORR_PHASE_INPUT_GRAD, l, l->tokens, rank, second);
    b->weight.tail = b->weight.join = -1;
    add_narrow(b, ORR_PHASE_WEIGHT_GRAD, l, second, rank, l->tokens);
    if (split && !column) { /* its output is whole on no rank */
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_LORA, ORR_ALL_GATHER, 2 * (uint64_t)out);
    }
    static const double ADD_BYTES = 6; /* two read, one written */
    orr_add_memory(b, ORR_PHASE_FORWARD, ORR_N_LORA, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_ELEMENTWISE,
                   ADD_BYTES * out, 1);
    orr_add_memory(b, ORR_PHASE_INPUT_GRAD, ORR_N_LORA, ORR_CLASS_ELEMENTWISE,
                   ORR_MEMOP_ELEMENTWISE, ADD_BYTES * in, 1);
}

void orr_add_adapter(orr_builder *b, uint32_t target, orr_adapter_kind kind, orr_linear l) {
    if (!orr_adapts(b, target) || l.out == 0 || l.in == 0) {
        return;
    }
    uint64_t rank = b->key->lora.rank;
    uint64_t t = b->tensor && kind != ORR_ADAPTER_LONE ? b->key->split.tp : 1;
    bool column = kind == ORR_ADAPTER_COLUMN;
    orr_owner owner = l.expert ? ORR_OWN_EXPERT : t > 1 ? ORR_OWN_SHARDED : ORR_OWN_REPLICATED;
    uint32_t repeat = l.expert ? (uint32_t)b->size.experts : 1;
    add_adapter_ops(b, kind, &l);
    b->adapting = true;
    uint64_t first = orr_div_up_u64(rank, column ? t : 1);
    uint64_t second = orr_div_up_u64(l.out, column ? 1 : t);
    orr_own(b, owner, l.in * first, repeat);
    orr_own(b, owner, second * rank, repeat);
    orr_note_matrix(b, owner, first, l.in, repeat);
    orr_note_matrix(b, owner, second, rank, repeat);
    b->adapting = false;
    orr_keep(b, ORR_N_LORA, ORR_N_T_ADAPTER, 2 * l.tokens * rank, b->modules | ORR_MODULE_SAC, 0);
    b->adapter_out = orr_max_u64(b->adapter_out, l.tokens * l.out);
}

void orr_add_elementwise(orr_builder *b, uint16_t name, double elements, double forward_bytes,
                         double backward_bytes, uint32_t kernels) {
    orr_add_memory(b, ORR_PHASE_FORWARD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_ELEMENTWISE,
                   elements * forward_bytes, kernels);
    orr_add_memory(b, ORR_PHASE_INPUT_GRAD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_ELEMENTWISE,
                   elements * backward_bytes, kernels);
}

void orr_add_traffic(orr_builder *b, uint16_t name, double elements, const orr_traffic *traffic) {
    orr_add_memory(b, ORR_PHASE_FORWARD, name, ORR_CLASS_ELEMENTWISE, traffic->family,
                   elements * traffic->forward_bytes, traffic->kernels);
    orr_add_memory(b, ORR_PHASE_INPUT_GRAD, name, ORR_CLASS_ELEMENTWISE, traffic->backward_family,
                   elements * traffic->backward_bytes, traffic->backward_kernels);
}

void orr_add_norm(orr_builder *b, uint16_t name, double elements) {
    const orr_traffic traffic = orr_traffic_norm(b->key->variant.fused_norm);
    orr_add_traffic(b, name, elements, &traffic);
}

void orr_add_residual(orr_builder *b, uint16_t name) {
    const orr_traffic traffic = orr_traffic_residual(b->key->variant.hidden_dropout);
    orr_add_traffic(b, name, (double)b->size.sharded * (double)b->size.h, &traffic);
}

orr_fork orr_fork_here(const orr_builder *b) {
    return (orr_fork){b->forward.tail, b->backward.tail};
}

orr_fork orr_fork_switch(orr_builder *b, orr_fork to) {
    orr_fork end = orr_fork_here(b);
    b->forward.tail = to.forward;
    b->backward.tail = to.backward;
    return end;
}

void orr_fork_join(orr_builder *b, orr_fork other) {
    b->forward.join = other.forward;
    b->backward.join = other.backward;
}

void orr_keep(orr_builder *b, uint16_t module, uint16_t name, uint64_t bytes, uint32_t dropped,
              uint32_t only) {
    if (bytes == 0) {
        return;
    }
    if (b->saved_count == ORR_MAX_SAVED) {
        b->overflow = true;
        return;
    }
    b->saved[b->saved_count++] = (orr_saved){.name = name,
                                             .module = module,
                                             .dropped = (uint16_t)dropped,
                                             .only = (uint16_t)only,
                                             .bytes = bytes};
}

uint64_t orr_low_bytes(const orr_builder *b, uint64_t elements) {
    switch (b->gemm_dtype) {
    case ORR_MXFP8: return elements + orr_div_up_u64(elements, 32); /* a byte each 32 elements */
    case ORR_FP8_BLOCK: return elements + 4 * orr_div_up_u64(elements, 128); /* fp32 each 128 */
    case ORR_NVFP4: return orr_div_up_u64(elements, 2) + orr_div_up_u64(elements, 16);
    default: return elements;
    }
}

void orr_keep_input(orr_builder *b, uint16_t module, uint64_t elements, uint32_t dropped) {
    if (b->low) {
        orr_keep(b, module, ORR_N_T_INPUT_LOW, orr_low_bytes(b, elements), dropped, 0);
    } else {
        orr_keep(b, module, ORR_N_T_INPUT, 2 * elements, dropped, 0);
    }
}

void orr_keep_linear_input(orr_builder *b, uint16_t module, uint64_t elements, uint32_t dropped,
                           uint32_t target) {
    if (!b->frozen) {
        orr_keep_input(b, module, elements, dropped);
    } else if (orr_adapts(b, target)) {
        orr_keep(b, module, ORR_N_T_INPUT, 2 * elements, dropped, 0);
    }
}

static void own(orr_builder *b, orr_owner owner, uint64_t numel, uint32_t repeat, bool linear) {
    if (numel == 0 || repeat == 0) {
        return;
    }
    uint64_t all = numel * repeat;
    if (b->frozen && !b->adapting) {
        bool expert = owner == ORR_OWN_EXPERT;
        *(expert ? &b->params.frozen_expert : &b->params.frozen_dense) += all;
        *(expert ? &b->params.frozen_linear_expert : &b->params.frozen_linear_dense) +=
            linear ? all : 0;
        return;
    }
    if (owner == ORR_OWN_EXPERT) {
        b->params.expert += all;
    } else {
        b->params.dense += all;
        b->params.norms += owner == ORR_OWN_REPLICATED ? all : 0;
    }
    orr_param_tensor tensor = {
        .numel = numel, .repeat = repeat, .expert = owner == ORR_OWN_EXPERT, .linear = linear};
    if (b->tensor_count == ORR_MAX_SAVED) {
        b->overflow = true;
        return;
    }
    b->param[b->tensor_count++] = tensor;
}

void orr_own(orr_builder *b, orr_owner owner, uint64_t numel, uint32_t repeat) {
    own(b, owner, numel, repeat, false);
}

void orr_note_matrix(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols,
                     uint32_t repeat) {
    if ((b->frozen && !b->adapting) || rows == 0 || cols == 0 || repeat == 0) {
        return;
    }
    orr_matrix matrix = {.rows = (uint32_t)rows,
                         .cols = (uint32_t)cols,
                         .count = repeat,
                         .expert = owner == ORR_OWN_EXPERT};
    for (uint32_t i = 0; i < b->matrix_count; i++) {
        orr_matrix *at = &b->matrix[i];
        if (at->rows == matrix.rows && at->cols == matrix.cols && at->expert == matrix.expert) {
            at->count += repeat;
            return;
        }
    }
    if (b->matrix_count == ORR_MAX_MATRICES) {
        b->overflow = true;
        return;
    }
    b->matrix[b->matrix_count++] = matrix;
}

void orr_own_fused(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols, uint64_t bias,
                   orr_owner bias_owner, uint32_t repeat) {
    own(b, owner, rows * cols, repeat, true);
    own(b, bias_owner, bias, repeat, false);
    orr_note_weight(b, rows, cols);
}

void orr_own_linear(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols, uint64_t bias,
                    orr_owner bias_owner, uint32_t repeat) {
    orr_own_fused(b, owner, rows, cols, bias, bias_owner, repeat);
    orr_note_matrix(b, owner, rows, cols, repeat);
}

void orr_note_weight(orr_builder *b, uint64_t rows, uint64_t cols) {
    if (b->frozen && !b->adapting) {
        return;
    }
    for (uint32_t i = 0; i < b->weight_count; i++) {
        if (b->weight_shape[i].rows == rows && b->weight_shape[i].cols == cols) {
            return;
        }
    }
    if (b->weight_count == ORR_MAX_WEIGHT_SHAPES) {
        b->overflow = true;
        return;
    }
    b->weight_shape[b->weight_count++] =
        (struct orr_weight_shape){.rows = (uint32_t)rows, .cols = (uint32_t)cols};
}

void orr_own_norm(orr_builder *b, uint64_t width, uint32_t repeat) {
    orr_own(b, ORR_OWN_REPLICATED, width, repeat * b->norm_tensors);
}
