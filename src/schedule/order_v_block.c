#include "schedule/order_v_block.h"

#include <string.h>

/* Keeps m repetitions of an op from `first` on. */
static void keep(v_rows *rows, uint32_t rank, uint32_t first, uint32_t m) {
    uint8_t *row = v_row(rows, rank);
    for (uint32_t t = first % V_PERIOD; t < rows->length; t += V_PERIOD) {
        if (t < first || t >= first + V_PERIOD * m) {
            row[t] = V_FREE;
        }
    }
}

void orr_v_repeat(v_rows *rows, uint8_t (*block)[V_TYPES], uint32_t m) {
    for (uint32_t r = 0; r < rows->pp; r++) {
        uint8_t *row = v_row(rows, r);
        memset(row, V_FREE, rows->capacity);
        for (uint32_t type = 0; type < V_TYPES; type++) {
            for (uint32_t t = block[r][type]; t < rows->length; t += V_PERIOD) {
                row[t] = (uint8_t)type;
            }
        }
    }
    uint32_t t = V_PERIOD;
    for (uint32_t type = V_F0; type <= V_B0; type++) {
        bool down = type == V_F0 || type == V_B1;
        for (uint32_t k = 0; k < rows->pp; k++) {
            uint32_t r = down ? k : rows->pp - 1 - k;
            const uint8_t *row = v_row(rows, r);
            while (row[t] != type) {
                t++;
            }
            keep(rows, r, t++, m);
            if (type >= V_B1) {
                uint32_t w = t;
                while (row[w] != type + (V_W1 - V_B1)) {
                    w++;
                }
                keep(rows, r, w, m);
            }
        }
    }
}
