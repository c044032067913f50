/* Tables of measured kernels, row by row, by the CSV columns of kernel_rows.c. */
#ifndef ORR_COST_KERNEL_ROWS_H
#define ORR_COST_KERNEL_ROWS_H

#include "cost/models.h"
#include "doc/doc.h"
#include "program/program.h"

typedef enum orr_kernel_class {
    ORR_KERNELS_GEMM = 0,
    ORR_KERNELS_GROUPED_GEMM,
    ORR_KERNELS_MOE_FUSED,
    ORR_KERNELS_ATTENTION,
    ORR_KERNELS_MEMOPS,
    ORR_KERNELS_COLLECTIVES,
    ORR_KERNELS_EP_ALLTOALL,
    ORR_KERNELS_COUNT
} orr_kernel_class;
const char *orr_kernel_class_name(orr_kernel_class class); /* "gemm" ... */

typedef enum orr_kernel_stage {
    ORR_STAGE_FORWARD = 0,
    ORR_STAGE_DGRAD,
    ORR_STAGE_WGRAD,
    ORR_STAGE_BACKWARD,
    ORR_STAGE_BOTH /* forward and backward in one figure */
} orr_kernel_stage;

/* Texts live until the next row. A row that does not say what is needed has time_s 0. */
typedef struct orr_kernel_row {
    const char *const *cell;                      /* the row as it stands */
    const char *device, *dtype, *source, *kernel; /* kernel: library, note or op */
    bool whole;                                   /* it says what a price needs */
    const char *lacks;                            /* the column that does not, where it is known */
    char name[96];                                /* kernel points here where it is put together */
    double time_s;
    bool training; /* of training size: docs/kernels.md */
    uint8_t stage; /* orr_kernel_stage */
    uint32_t fit;  /* of attention: 1 + the number of the fit that prices it; 0: the nearest */
    union {
        struct {
            double m, n, k, batch;
            bool accumulates; /* into an fp32 main gradient */
            double topk;      /* grouped: groups that a token goes to, 0: not said */
            uint8_t scales;   /* grouped: what shares a scale, by number; 0: not said */
        } gemm;               /* grouped: batch groups of m rows each */
        struct {
            double tokens, hidden, inter, topk, experts, tp, ep, skew; /* skew 0: balanced */
        } moe;
        orr_attention_shape attention;
        struct {
            double rows, columns, bytes;
            bool backward;
        } memop;
        struct {
            double bytes, ranks, nodes;
            uint8_t op; /* orr_collective */
        } collective;
        struct {
            double nodes, ep, tokens, hidden, topk, experts, sms, dispatch_s, combine_s;
        } exchange;
    } shape;
} orr_kernel_row;

typedef struct orr_kernel_rows {
    orr_kernel_class class;
    orr_csv *csv;
    int column[20]; /* of the class's list, -1: absent */
} orr_kernel_rows;

/* class NULL: told from the columns. timed: measured times are needed. Errors: unknown class,
 * missing columns. */
orr_status orr_kernel_rows_open(orr_arena *arena, const char *path, const char *class, bool timed,
                                orr_kernel_rows *out, orr_err *err);
orr_status orr_kernel_rows_next(orr_kernel_rows *rows, orr_kernel_row *out, bool *more,
                                orr_err *err);

/* What the experts model needs of a row of grouped_gemm or moe_fused, by the bytes of a stored
 * weight. */
orr_experts_shape orr_kernel_experts(const orr_kernel_row *row, orr_kernel_class class,
                                     double weight_bytes);
orr_exchange_shape orr_kernel_exchange(const orr_kernel_row *row);

#endif
