#include "program/unfused.h"

#include "program/traffic.h"

static orr_unfused_part product(orr_unfused_kind of, const char *what, uint64_t m, uint64_t n,
                                uint64_t k) {
    return (orr_unfused_part){.of = of, .what = what, .m = m, .n = n, .k = k};
}

static orr_unfused_part softmax(const orr_unfused *core, bool backward) {
    const orr_traffic traffic = orr_traffic_scores(core->fused_softmax);
    double scores = (double)(core->batch * core->seq_q * core->seq_kv);
    return (orr_unfused_part){.of = ORR_UNFUSED_SOFTMAX,
                              .what = "softmax, mask, dropout",
                              .bytes = scores *
                                       (backward ? traffic.backward_bytes : traffic.forward_bytes),
                              .kernels = traffic.kernels};
}

uint32_t orr_unfused_parts(const orr_unfused *core, bool backward,
                           orr_unfused_part out[ORR_UNFUSED_PARTS]) {
    uint64_t q = core->seq_q, kv = core->seq_kv, d = core->head_dim, dv = core->v_dim;
    if (!backward) {
        out[0] = product(ORR_UNFUSED_SCORES, "scores", q, kv, d);
        out[1] = softmax(core, false);
        out[2] = product(ORR_UNFUSED_CONTEXT, "context", q, dv, kv);
        return 3;
    }
    out[0] = product(ORR_UNFUSED_SCORES, "gradient of keys", kv, d, q);
    out[1] = product(ORR_UNFUSED_SCORES, "gradient of queries", q, d, kv);
    out[2] = softmax(core, true);
    out[3] = product(ORR_UNFUSED_CONTEXT, "gradient of values", kv, dv, q);
    out[4] = product(ORR_UNFUSED_CONTEXT, "gradient of probabilities", q, kv, dv);
    return 5;
}
