/* Accelerators: data-sheet figures with their sources. No efficiencies here: those are calibration.
 */
#ifndef ORR_HARDWARE_H
#define ORR_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

typedef enum orr_dtype {
    ORR_BF16 = 0,
    ORR_FP16 = 1,
    ORR_FP32 = 2,
    ORR_FP8 = 3,       /* per-tensor scaling */
    ORR_MXFP8 = 4,     /* 1x32 block scaling */
    ORR_FP8_BLOCK = 5, /* 1x128 and 128x128 scaling */
    ORR_NVFP4 = 6,
    ORR_INT8 = 7, /* no plan trains in it: for `cost` and tables of kernels */
    ORR_DTYPE_COUNT
} orr_dtype;
/* In the order of the enum; so are the words of the others below. */
#define ORR_DTYPE_WORDS "bf16", "fp16", "fp32", "fp8", "mxfp8", "fp8_block", "nvfp4", "int8"
const char *orr_dtype_name(orr_dtype dtype);
double orr_dtype_bytes(orr_dtype dtype); /* an element, without block scales */

typedef enum orr_vendor { ORR_NVIDIA = 0, ORR_AMD = 1, ORR_VENDOR_OTHER = 2 } orr_vendor;
/* Kernel constants are fitted per architecture. */
typedef enum orr_arch {
    ORR_ARCH_PASCAL = 0,
    ORR_ARCH_VOLTA,
    ORR_ARCH_TURING,
    ORR_ARCH_AMPERE,
    ORR_ARCH_ADA,
    ORR_ARCH_HOPPER,
    ORR_ARCH_BLACKWELL,     /* sm_100, sm_103: tensor memory, HBM */
    ORR_ARCH_BLACKWELL_RTX, /* sm_120: units like Ada's, GDDR behind a large L2 */
    ORR_ARCH_CDNA2,
    ORR_ARCH_CDNA3,
    ORR_ARCH_CDNA4,
    ORR_ARCH_OTHER,
    ORR_ARCH_COUNT
} orr_arch;
#define ORR_ARCH_WORDS                                                                             \
    "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_rtx", "cdna2", \
        "cdna3", "cdna4", "other"
const char *orr_arch_name(orr_arch arch);
typedef enum orr_topology {
    ORR_SWITCHED = 0, /* every peer at full link speed */
    ORR_MESH = 1,     /* a share of the links to each peer */
    ORR_TORUS = 2,
    ORR_HOST = 3 /* through the host's PCIe */
} orr_topology;
#define ORR_TOPOLOGY_WORDS "switched", "mesh", "torus", "host"
const char *orr_topology_name(orr_topology topology);

typedef struct orr_accelerator {
    const char *name;  /* "h100" */
    const char *title; /* "NVIDIA H100 SXM5 80GB" */
    const char *like;  /* accelerator that it starts from; NULL: none */
    const char *source;
    const orr_tree *sources; /* map: figure to where it was read */
    uint8_t vendor, arch;
    uint8_t topology;                   /* orr_topology of the scale-up links */
    uint8_t assumed;                    /* hypothetical, or without evidence: intervals widen */
    uint32_t units;                     /* SMs or CUs */
    double clock_hz;                    /* boost */
    double peak_flops[ORR_DTYPE_COUNT]; /* dense; 0: not supported */
    double hbm_bytes;                   /* the vendor's figure */
    double usable_bytes;                /* what a program sees */
    double hbm_Bps;
    double l2_bytes;
    double tdp_w;
    uint32_t exp_per_clock; /* exponentials that a unit does in a clock */
    double link_Bps;        /* scale-up, one direction, all links of one accelerator */
    double peer_Bps;        /* scale-up, one direction, to one peer */
    double nic_Bps;         /* one direction, as usually built */
    uint32_t domain;        /* accelerators of a scale-up domain, as usually built */
    uint32_t node;          /* accelerators of a host, as usually built */
} orr_accelerator;

orr_status orr_accelerator_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                                orr_accelerator **out, orr_err *err);
/* Catalog name or alias ("a100-80g", "A100-SXM-80GB", "h100") or path, as for models. */
orr_status orr_accelerator_find(orr_arena *arena, const char *name, orr_accelerator **out,
                                orr_err *err);
orr_tree *orr_accelerator_catalog(orr_arena *arena);
orr_tree *orr_accelerator_write(orr_arena *arena, const orr_accelerator *accelerator);

#endif
