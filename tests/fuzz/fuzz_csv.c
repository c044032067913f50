/* Every row that is read has the header's width and cells inside the arena; lines only grow. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_csv *csv;
    orr_err err = {0};
    orr_status status = orr_csv_open(arena, "f.csv", (const char *)data, size, &csv, &err);
    uint32_t line = 0;
    size_t bytes = 0;
    for (bool more = true; status == ORR_OK && more;) {
        const char *const *cells;
        status = orr_csv_next(csv, &cells, &more, &err);
        if (status == ORR_OK && more) {
            if (orr_csv_line(csv) <= line) {
                abort();
            }
            line = orr_csv_line(csv);
            for (size_t i = 0; i < orr_csv_columns(csv); i++) {
                bytes += strlen(cells[i]);
            }
        }
    }
    if (bytes > size || (status != ORR_OK && err.message[0] == '\0')) {
        abort();
    }
    orr_arena_free(arena);
    return 0;
}
