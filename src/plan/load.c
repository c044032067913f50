/* How unevenly tokens reach the ranks that hold experts. Memory and time follow the fullest rank.
 */
#include <math.h>
#include <string.h>

#include "plan/plan_int.h"

/* Experts of the model's mixture layers; 0: none. */
static uint32_t experts_of(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return model->kind[k].mlp.experts;
        }
    }
    return 0;
}

/* The most popular expert meets average ones on its rank: popular experts are dealt out, not put
 * together. */
static double power_load(double exponent, uint32_t experts, uint32_t ep) {
    double sum = 0;
    for (uint32_t e = 0; e < experts; e++) {
        sum += pow(e + 1.0, -exponent);
    }
    double first = 1 / sum, others = experts > 1 ? (1 - first) / (experts - 1) : 0;
    double local = (double)experts / ep;
    return ep * (first + (local - 1) * others);
}

/* Experts lie on the ranks in order, as many on each. */
static bool histogram_load(const orr_tree *list, uint32_t experts, uint32_t ep, double *out,
                           orr_err *err) {
    if (orr_tree_size(list) != experts) {
        orr_fail(err, ORR_E_SCHEMA, "imbalance lists %zu loads for %u experts", orr_tree_size(list),
                 experts);
        return false;
    }
    double sum = 0, fullest = 0, rank = 0;
    for (uint32_t e = 0; e < experts; e++) {
        double load = orr_tree_real(orr_tree_at(list, e), -1);
        if (!(load >= 0 && load < 1e15)) {
            orr_fail(err, ORR_E_SCHEMA, "load %u of imbalance is no count of tokens", e);
            return false;
        }
        rank = e % orr_max_u32(1, experts / ep) == 0 ? load : rank + load;
        fullest = orr_max_f64(fullest, rank);
        sum += load;
    }
    if (!(sum > 0)) {
        orr_fail(err, ORR_E_SCHEMA, "the loads of imbalance are all 0");
        return false;
    }
    *out = ep * fullest / sum;
    return true;
}

/* "4,1,1,1" of a command line; NULL when a part is no number. */
static orr_tree *listed(orr_arena *arena, const char *text) {
    orr_tree *list = orr_tree_new_list(arena);
    for (const char *at = text; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t length = comma == NULL ? strlen(at) : (size_t)(comma - at);
        double load;
        if (length >= 32 ||
            !orr_parse_real(orr_arena_format(arena, "%.*s", (int)length, at), &load)) {
            return NULL;
        }
        (void)orr_tree_push(arena, list, orr_tree_new_real(arena, load));
        at = comma == NULL ? NULL : comma + 1;
    }
    return list;
}

bool orr_imbalance_read(orr_arena *arena, const orr_tree *node, const orr_model *model, uint32_t ep,
                        double *out, orr_err *err) {
    static const double most = UINT16_MAX / ORR_LOAD_ONE;
    const uint32_t experts = experts_of(model);
    const char *text = orr_tree_text(node, NULL);
    double number = orr_tree_real(node, -1);
    const orr_tree *list = text != NULL && strchr(text, ',') != NULL ? listed(arena, text) : node;
    *out = 1;
    ep = orr_max_u32(1, orr_min_u32(ep, orr_max_u32(1, experts)));
    if (text != NULL && strcmp(text, "balanced") == 0) {
        return true;
    }
    if (list != NULL && orr_tree_kind_of(list) == ORR_TREE_LIST) {
        if (!histogram_load(list, experts, ep, out, err)) {
            return false;
        }
    } else if (text != NULL && strncmp(text, "power:", 6) == 0 &&
               orr_parse_real(text + 6, &number) && number >= 0 && number <= 16) {
        *out = power_load(number, experts, ep);
    } else if (number >= 1 || (text != NULL && orr_parse_real(text, &number) && number >= 1)) {
        *out = number;
    } else {
        orr_fail(err, ORR_E_SCHEMA, "imbalance takes balanced, a number from 1, power:A or a list");
        return false;
    }
    *out = orr_max_f64(1, orr_min_f64(*out, orr_min_f64(most, ep)));
    return true;
}
