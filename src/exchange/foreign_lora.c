/* Low-rank adapters and their targets, by the names of any framework. */
#include <string.h>

#include "exchange/foreign.h"

static bool is_target(const char *name) {
    static const char *const names[] = {"q",
                                        "k",
                                        "v",
                                        "o",
                                        "gate",
                                        "up",
                                        "down",
                                        "qkv",
                                        "fc1",
                                        "fc2",
                                        "proj",
                                        "attention",
                                        "mlp",
                                        "all-linear",
                                        "all",
                                        "q_proj",
                                        "q_a_proj",
                                        "q_b_proj",
                                        "k_proj",
                                        "v_proj",
                                        "o_proj",
                                        "out_proj",
                                        "gate_proj",
                                        "up_proj",
                                        "down_proj",
                                        "w1",
                                        "w2",
                                        "w3",
                                        "gate_up_proj",
                                        "qkv_proj",
                                        "c_attn",
                                        "linear_qkv",
                                        "linear_proj",
                                        "linear_fc1",
                                        "linear_fc2",
                                        "query_key_value",
                                        "kv_b_proj",
                                        "kv_a_proj_with_mqa",
                                        "linear_q_proj"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (orr_name_equal(name, names[i])) {
            return true;
        }
    }
    return false;
}

void orr_foreign_lora(importer *im, const orr_tree *rank, const orr_tree *targets, uint32_t line) {
    orr_tree *lora = orr_tree_new_map(im->arena);
    int64_t number = orr_tree_int(rank, 0);
    if (number < 1 && orr_tree_kind_of(rank) == ORR_TREE_TEXT) {
        (void)orr_parse_int(orr_tree_text(rank, ""), &number);
    }
    if (number < 1 || number > 1 << 16) {
        orr_import_ask(im, line, "lora", "the rank of the adapters is not known; give --lora");
        return;
    }
    orr_tree_put_int(im->arena, lora, "rank", number);
    const char *text = orr_tree_text(targets, "");
    if (orr_tree_kind_of(targets) == ORR_TREE_LIST) {
        orr_tree *list = orr_tree_put(im->arena, lora, "targets", orr_tree_new_list(im->arena));
        for (size_t i = 0; i < orr_tree_size(targets); i++) {
            const char *one = orr_tree_text(orr_tree_at(targets, i), "");
            bool known = is_target(one);
            if (known) {
                orr_tree_push(im->arena, list, orr_tree_new_text(im->arena, one));
            } else {
                orr_import_unknown(im, one, line, true, "no adapter of this name is modelled");
            }
        }
    } else if (text[0] != '\0') {
        orr_tree_put_text(im->arena, lora, "targets",
                          strcmp(text, "all") == 0 ? "all-linear" : text);
    }
    orr_import_put(im, "lora", lora, line);
}
