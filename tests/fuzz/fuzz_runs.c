/* Any text is a table of runs or no table; every row of it is a plan or says why not. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "study/study_int.h"

static const char models[] =
    "{\"m\":{\"num_layers\":32,\"hidden_size\":4096,\"ffn_hidden_size\":14336,"
    "\"num_attention_heads\":32,\"num_kv_heads\":8,\"vocab_size\":128256},"
    "\"e\":{\"num_layers\":4,\"hidden_size\":1024,\"ffn_hidden_size\":2048,"
    "\"num_attention_heads\":16,\"vocab_size\":32000,\"num_experts\":8,\"top_k\":2,"
    "\"moe_ffn_hidden_size\":512}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MAX_ROWS = 64 };
    orr_arena *arena = orr_arena_new();
    orr_tree *tree = NULL;
    orr_run_table table;
    orr_curator curator;
    char *text = orr_arena_copy(arena, (const char *)data, size);
    if (orr_json_read(arena, "models", models, sizeof models - 1, &tree, NULL) != ORR_OK ||
        orr_curator_of(arena, tree, &curator, NULL) != ORR_OK) {
        abort();
    }
    if (orr_runs_parse(arena, "runs", text, size, &table, NULL) == ORR_OK) {
        for (uint32_t i = 0; i < table.count && i < MAX_ROWS; i++) {
            orr_judged row = {.run = &table.run[i]};
            if (orr_judged_resolve(&curator, arena, &row, NULL) != ORR_OK ||
                (row.skipped == NULL && row.resolved == NULL)) {
                abort();
            }
        }
        (void)orr_disturbed_write(arena, &table);
    }
    orr_curator_release(&curator);
    orr_arena_free(arena);
    return 0;
}
