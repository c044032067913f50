/* Reading calibration files, and choosing the fit for an accelerator. */
#include "cost/calibration.h"

#include <math.h>
#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "doc/doc.h"

/* In the order of the enums; a record names its architecture and dtype. */
static const char *const ARCHES[] = {"volta",     "ampere",        "ada",   "hopper",
                                     "blackwell", "blackwell_rtx", "cdna2", "cdna3",
                                     "cdna4",     "other",         NULL};
static const char *const DTYPES[] = {"bf16",  "fp16",      "fp32",  "fp8",
                                     "mxfp8", "fp8_block", "nvfp4", NULL};
static const char *const OPS[] = {ORR_COLLECTIVE_WORDS, NULL};
static const char *const TOPOLOGIES[] = {"switched", "mesh", "torus", "host", NULL};
static const char *const MEMOPS[] = {ORR_MEMOP_WORDS, NULL};
_Static_assert(sizeof ARCHES / sizeof *ARCHES == ORR_ARCH_COUNT + 1, "one name an architecture");
_Static_assert(sizeof DTYPES / sizeof *DTYPES == ORR_DTYPE_COUNT + 1, "one name a dtype");
_Static_assert(sizeof OPS / sizeof *OPS == ORR_COLLECTIVE_COUNT + 1, "one name an operation");
_Static_assert(sizeof MEMOPS / sizeof *MEMOPS == ORR_MEMOP_COUNT + 1, "one name a family");

const char *orr_collective_name(orr_collective op) {
    return op < ORR_COLLECTIVE_COUNT ? OPS[op] : "unknown";
}

const char *orr_memop_name(orr_memop family) {
    return family < ORR_MEMOP_COUNT ? MEMOPS[family] : "unknown";
}

#define AT(T, member) offsetof(T, member)
#define TEXT(T, key, member, text)                                                                 \
    {.name = (key), .type = ORR_FIELD_TEXT, .offset = AT(T, member), .doc = (text)}
#define CHOICE(T, key, member, list, text)                                                         \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_ENUM,                                                                       \
     .offset = AT(T, member),                                                                      \
     .values = (list),                                                                             \
     .doc = (text)}
#define FLAG(T, key, member, text)                                                                 \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_BOOL,                                                                       \
     .offset = AT(T, member),                                                                      \
     .fallback = "false",                                                                          \
     .doc = (text)}
#define SECONDS(T, key, member, text)                                                              \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(T, member),                                                                      \
     .max = 1,                                                                                     \
     .unit = "s",                                                                                  \
     .doc = (text)}
#define RATE(T, key, member, text)                                                                 \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(T, member),                                                                      \
     .min = 1e3,                                                                                   \
     .max = 1e16,                                                                                  \
     .unit = "bytes/s",                                                                            \
     .doc = (text)}
#define USUAL_RATE(T, key, member, text)                                                           \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(T, member),                                                                      \
     .max = 1e16,                                                                                  \
     .unit = "bytes/s",                                                                            \
     .fallback = "0",                                                                              \
     .doc = (text)}
#define NUMBER(T, key, member, least, most, text)                                                  \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = AT(T, member),                                                                      \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .doc = (text)}
#define SURFACE(T, member)                                                                         \
    {.name = "surface",                                                                            \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = AT(T, member),                                                                      \
     .fallback = "",                                                                               \
     .doc = "What is left beyond the constants, over shapes: cost/surface.h."}
/* The fields of orr_fit inside a record. */
#define FIT_FIELDS(T)                                                                              \
    TEXT(T, "device", fit.device, "Catalog name of the accelerator it was measured on."),          \
        TEXT(T, "source", fit.source, "Tables or documents, with versions."),                      \
        CHOICE(T, "arch", fit.arch, ARCHES, "Architecture whose other devices may use it."),       \
        FLAG(T, "assumed", fit.assumed, "Not measured: from documents or by analogy."),            \
        {.name = "rows",                                                                           \
         .type = ORR_FIELD_U32,                                                                    \
         .offset = AT(T, fit.rows),                                                                \
         .fallback = "0",                                                                          \
         .doc = "Measurements behind it."},                                                        \
        NUMBER(T, "units", fit.units, 1, 1e5, "SMs or CUs it was fitted with."),                   \
        {.name = "peak",                                                                           \
         .type = ORR_FIELD_QUANTITY,                                                               \
         .offset = AT(T, fit.peak_flops),                                                          \
         .min = 1e9,                                                                               \
         .max = 1e18,                                                                              \
         .unit = "flop/s",                                                                         \
         .doc = "Dense peak it was fitted with."},                                                 \
        RATE(T, "hbm", fit.hbm_Bps, "Memory bandwidth it was fitted with."),                       \
        NUMBER(T, "tdp", fit.tdp_w, 0, 1e5, "Board power it was fitted with."),                    \
        NUMBER(T, "error_small", fit.error_small_frac, 0, 10,                                      \
               "Relative error, one sd, below the training sizes."),                               \
        NUMBER(T, "error_training", fit.error_training_frac, 0, 10,                                \
               "Relative error, one sd, at training sizes."),                                      \
        NUMBER(T, "mape_all", fit.mape_all_frac, 0, 10, "Mean error of rows left out."),           \
        NUMBER(T, "mape_training", fit.mape_training_frac, 0, 10, "The same, training sizes."),    \
        NUMBER(T, "bias", fit.bias_frac, -10, 10, "Median signed error of rows left out."),        \
        SURFACE(T, fit.surface_text)

#define TILE(shape, index)                                                                         \
    {.name = "tile_" shape,                                                                        \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = AT(orr_gemm_fit, constants.tile_gain[index]),                                       \
     .min = 1e-3,                                                                                  \
     .max = 1e3,                                                                                   \
     .fallback = "1",                                                                              \
     .doc = "Main-loop efficiency of this tile by that of 128x128."}

static const orr_field GEMM_FIELDS[] = {
    FIT_FIELDS(orr_gemm_fit),
    {.name = "dtype",
     .type = ORR_FIELD_ENUM,
     .offset = AT(orr_gemm_fit, dtype),
     .values = DTYPES,
     .doc = "Element type of the operands."},
    TEXT(orr_gemm_fit, "scheme", scheme, "Name of dtype and scaling in kernel tables."),
    SECONDS(orr_gemm_fit, "start", constants.start_s, "Launch and drain."),
    NUMBER(orr_gemm_fit, "efficiency", constants.efficiency, 1e-3, 10, "Of peak, main loop."),
    NUMBER(orr_gemm_fit, "hbm_frac", constants.hbm_frac, 1e-3, 10, "Of HBM bandwidth."),
    SECONDS(orr_gemm_fit, "tile", constants.tile_s, "Prologue and epilogue of a wave."),
    RATE(orr_gemm_fit, "unit_rate", constants.unit_Bps, "Operands from L2 into one unit."),
    NUMBER(orr_gemm_fit, "occupancy", constants.occupancy, 1e-3, 1e9, "HBM reach by busy units."),
    NUMBER(orr_gemm_fit, "serial_output", constants.serial_output, 0, 1,
           "Part of the output write that nothing hides."),
    NUMBER(orr_gemm_fit, "norm", constants.norm, 0.5, 1e3, "How sharply the slowest decides."),
    SECONDS(orr_gemm_fit, "split", constants.split_s, "A reduction over K splits."),
    NUMBER(orr_gemm_fit, "quantisation", constants.quantisation, 0, 1, "1: whole waves."),
    NUMBER(orr_gemm_fit, "fill", constants.fill, 0, 1, "Cost of padding by that of a full tile."),
    NUMBER(orr_gemm_fit, "depth", constants.depth, 0, 1, "Slow-down as (K/4096)^depth."),
    NUMBER(orr_gemm_fit, "throttle", constants.throttle, 0, 2, "Slow-down of long kernels."),
    SECONDS(orr_gemm_fit, "throttle_half", constants.throttle_half_s, "Where half of it shows."),
    {.name = "quantise_frac",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_gemm_fit, constants.quantise_frac),
     .max = 10,
     .fallback = "0",
     .doc = "HBM share of the quantising kernel in the measured time; 0: none."},
    TILE("256x128", 0),
    TILE("128x256", 1),
    TILE("128x128", 2),
    TILE("256x64", 3),
    TILE("64x256", 4),
    TILE("128x64", 5),
    TILE("64x128", 6),
    TILE("64x64", 7),
    TILE("256x256", 8),
    TILE("128x32", 9),
    TILE("64x32", 10),
};
static const orr_schema GEMM_SCHEMA = {"GEMM fit", GEMM_FIELDS,
                                       sizeof GEMM_FIELDS / sizeof *GEMM_FIELDS, false};

#define WIDTH(key, index)                                                                          \
    NUMBER(orr_flash_fit, key, constants.efficiency[index], 1e-3, 10, "Of peak, at this width.")
static const orr_field FLASH_FIELDS[] = {
    FIT_FIELDS(orr_flash_fit),
    TEXT(orr_flash_fit, "kernel", kernel, "Library, as kernel tables name it."),
    TEXT(orr_flash_fit, "scheme", scheme, "Name of the dtype in kernel tables."),
    FLAG(orr_flash_fit, "backward", backward, "Gradients; else the forward."),
    {.name = "causal_share",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_flash_fit, causal_share),
     .max = 1,
     .fallback = "0.5",
     .doc = "Of its rows, causal."},
    SECONDS(orr_flash_fit, "start", constants.start_s, "Launch, host floor, drain."),
    SECONDS(orr_flash_fit, "sequence", constants.sequence_s, "Each sequence of the batch."),
    WIDTH("width_64", 0),
    WIDTH("width_96", 1),
    WIDTH("width_128", 2),
    WIDTH("width_192", 3),
    WIDTH("width_256", 4),
    WIDTH("width_unaligned", ORR_FLASH_UNALIGNED),
    NUMBER(orr_flash_fit, "causal", constants.causal_frac, 1e-2, 10, "Of it, causal."),
    NUMBER(orr_flash_fit, "grouped", constants.grouped_frac, 1e-2, 10, "Of it, shared keys."),
    {.name = "deterministic",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_flash_fit, constants.deterministic_frac),
     .min = 1e-2,
     .max = 10,
     .fallback = "1",
     .doc = "Of it, sums in one order."},
    {.name = "masked",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_flash_fit, constants.masked_frac),
     .max = 1,
     .fallback = "0",
     .doc = "Of the keys outside a window, computed."},
    SECONDS(orr_flash_fit, "tile", constants.tile_s, "Ramp of one tile."),
    SECONDS(orr_flash_fit, "block", constants.block_s, "Softmax per 128 keys of a tile."),
    NUMBER(orr_flash_fit, "quantisation", constants.quantisation, 0, 1, "1: whole waves."),
    NUMBER(orr_flash_fit, "tail", constants.tail, 0.3, 1e3, "How the longest tile decides."),
    NUMBER(orr_flash_fit, "hbm_frac", constants.hbm_frac, 1e-3, 10, "Of HBM bandwidth."),
    NUMBER(orr_flash_fit, "norm", constants.norm, 0.3, 1e3, "How the slowest decides."),
    NUMBER(orr_flash_fit, "throttle", constants.throttle, 0, 2, "Slow-down of long kernels."),
    SECONDS(orr_flash_fit, "throttle_half", constants.throttle_half_s, "Where half shows."),
};
static const orr_schema FLASH_SCHEMA = {"attention fit", FLASH_FIELDS,
                                        sizeof FLASH_FIELDS / sizeof *FLASH_FIELDS, false};

static const orr_field STREAM_FIELDS[] = {
    FIT_FIELDS(orr_stream_fit),
    TEXT(orr_stream_fit, "kernel", kernel, "Kind of kernel, as tables name it."),
    SECONDS(orr_stream_fit, "start", constants.start_s, "Launch and drain."),
    SECONDS(orr_stream_fit, "row", constants.row_s, "Of a unit, each row."),
    NUMBER(orr_stream_fit, "hbm_frac", constants.hbm_frac, 1e-3, 10, "Of HBM bandwidth."),
    NUMBER(orr_stream_fit, "cached", constants.cached, 0, 100, "Bytes held in L2, by its size."),
    NUMBER(orr_stream_fit, "speedup", constants.speedup, 0.1, 100, "Of the bytes held."),
};
static const orr_schema STREAM_SCHEMA = {"memory kernel fit", STREAM_FIELDS,
                                         sizeof STREAM_FIELDS / sizeof *STREAM_FIELDS, false};

#define LIBRARY_FIELDS(T)                                                                          \
    FIT_FIELDS(T), TEXT(T, "kernel", kernel, "Library or stage, as kernel tables name it."),       \
        TEXT(T, "scheme", scheme, "Name of the dtype, or the place.")
static const orr_field EXPERTS_FIELDS[] = {
    LIBRARY_FIELDS(orr_experts_fit),
    SECONDS(orr_experts_fit, "start", constants.start_s, "Launches."),
    NUMBER(orr_experts_fit, "efficiency", constants.efficiency, 1e-4, 20, "Of peak."),
    NUMBER(orr_experts_fit, "hbm_frac", constants.hbm_frac, 1e-3, 50, "Of HBM bandwidth."),
    NUMBER(orr_experts_fit, "pad_rows", constants.pad_rows, 0, 1e4, "Lost in tiles of a group."),
    SECONDS(orr_experts_fit, "group", constants.group_s, "Each group with rows."),
    NUMBER(orr_experts_fit, "norm", constants.norm, 0.3, 1e3, "How the slower decides."),
    NUMBER(orr_experts_fit, "skew", constants.skew, 0, 2, "Fullest rank: ranks^skew."),
    NUMBER(orr_experts_fit, "activation", constants.activation, 0, 1e3, "Traffic by its least."),
    SECONDS(orr_experts_fit, "token", constants.token_s, "Routing a token."),
    NUMBER(orr_experts_fit, "wave", constants.wave, 0, 100, "Share of a wave lost."),
};
static const orr_schema EXPERTS_SCHEMA = {"experts fit", EXPERTS_FIELDS,
                                          sizeof EXPERTS_FIELDS / sizeof *EXPERTS_FIELDS, false};

static const orr_field EXCHANGE_FIELDS[] = {
    LIBRARY_FIELDS(orr_exchange_fit),
    SECONDS(orr_exchange_fit, "start", constants.start_s, "Launches."),
    SECONDS(orr_exchange_fit, "rank", constants.rank_s, "Each rank."),
    SECONDS(orr_exchange_fit, "node", constants.node_s, "Each node."),
    RATE(orr_exchange_fit, "link_rate", constants.link_Bps, "Inside a domain."),
    RATE(orr_exchange_fit, "unit_rate", constants.unit_Bps, "Of one SM."),
    RATE(orr_exchange_fit, "nic_rate", constants.nic_Bps, "Between domains."),
    NUMBER(orr_exchange_fit, "norm", constants.norm, 0.3, 1e3, "How the slowest decides."),
    NUMBER(orr_exchange_fit, "token_bytes", constants.token_bytes, 0, 1e7, "Beside the state."),
    NUMBER(orr_exchange_fit, "own_copies", constants.own_copies, 0, 1e3, "Cost of a token."),
};
static const orr_schema EXCHANGE_SCHEMA = {"exchange fit", EXCHANGE_FIELDS,
                                           sizeof EXCHANGE_FIELDS / sizeof *EXCHANGE_FIELDS, false};

static const orr_field COLLECTIVE_FIELDS[] = {
    {.name = "device",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_collective_fit, device),
     .doc = "Catalog name of the accelerator it was measured on."},
    {.name = "system",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_collective_fit, site),
     .fallback = "",
     .doc = "What tables of measured collectives call it."},
    {.name = "source",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_collective_fit, source),
     .doc = "Tables or documents."},
    {.name = "library",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_collective_fit, library),
     .doc = "Communication library and version."},
    {.name = "op",
     .type = ORR_FIELD_ENUM,
     .offset = AT(orr_collective_fit, op),
     .values = OPS,
     .doc = "Operation."},
    {.name = "topology",
     .type = ORR_FIELD_ENUM,
     .offset = AT(orr_collective_fit, topology),
     .values = TOPOLOGIES,
     .doc = "How the device's links are laid."},
    {.name = "assumed",
     .type = ORR_FIELD_BOOL,
     .offset = AT(orr_collective_fit, assumed),
     .fallback = "false",
     .doc = "Not measured: by analogy."},
    {.name = "ranks",
     .type = ORR_FIELD_U32,
     .offset = AT(orr_collective_fit, ranks),
     .min = 2,
     .max = ORR_MAX_GPUS,
     .doc = "Members."},
    {.name = "nodes",
     .type = ORR_FIELD_U32,
     .offset = AT(orr_collective_fit, nodes),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "Hosts that they lie on."},
    {.name = "domains",
     .type = ORR_FIELD_U32,
     .offset = AT(orr_collective_fit, domains),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "Scale-up domains that they lie in."},
    RATE(orr_collective_fit, "link", link_Bps, "All scale-up links of the device."),
    USUAL_RATE(orr_collective_fit, "nic", nic_Bps, "Line rate of a member's network card."),
    NUMBER(orr_collective_fit, "error_small", error_small_frac, 0, 10,
           "Relative error, one sd, under 1 MB."),
    NUMBER(orr_collective_fit, "error_training", error_training_frac, 0, 10, "From 1 MB."),
    {.name = "mape_all",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_collective_fit, mape_all_frac),
     .max = 10,
     .fallback = "0",
     .doc = "Mean error of rows left out."},
    {.name = "mape_training",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_collective_fit, mape_training_frac),
     .max = 10,
     .fallback = "0",
     .doc = "The same, training sizes."},
    {.name = "bias",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_collective_fit, bias_frac),
     .min = -10,
     .max = 10,
     .fallback = "0",
     .doc = "Median error of rows left out."},
    {.name = "rows",
     .type = ORR_FIELD_U32,
     .offset = AT(orr_collective_fit, rows),
     .fallback = "0",
     .doc = "Measurements behind it."},
    SECONDS(orr_collective_fit, "start", message.start_s, "Of the smallest message."),
    RATE(orr_collective_fit, "rate", message.Bps, "Bus bandwidth of the largest."),
    SECONDS(orr_collective_fit, "piece", message.piece_s, "Each piece of a message."),
    SURFACE(orr_collective_fit, surface_text),
};
static const orr_schema COLLECTIVE_SCHEMA = {"collective fit", COLLECTIVE_FIELDS,
                                             sizeof COLLECTIVE_FIELDS / sizeof *COLLECTIVE_FIELDS,
                                             false};

#define EFFICIENCY(key, member, text) NUMBER(orr_arch_fit, key, member, 1e-3, 10, text)
#define ERROR_OF(key, member) NUMBER(orr_arch_fit, key, member, 0, 10, "Relative error, one sd.")
#define FAMILY(key, index) EFFICIENCY(key, memory_frac[index], "Share of HBM bandwidth reached.")

static const orr_field ARCH_FIELDS[] = {
    {.name = "source",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_arch_fit, source),
     .doc = "What it was fitted on."},
    {.name = "arch",
     .type = ORR_FIELD_ENUM,
     .offset = AT(orr_arch_fit, arch),
     .values = ARCHES,
     .doc = "Architecture."},
    {.name = "assumed",
     .type = ORR_FIELD_BOOL,
     .offset = AT(orr_arch_fit, assumed),
     .fallback = "false",
     .doc = "By analogy with another architecture."},
    EFFICIENCY("gemm_factor", gemm_factor, "On the sustained GEMM time."),
    {.name = "gemm_sustained",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_arch_fit, gemm_sustained),
     .min = 0.5,
     .max = 2,
     .fallback = "1",
     .doc = "Sustained power by the throttle that short benchmarks show."},
    {.name = "misaligned",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_arch_fit, misaligned),
     .min = 1,
     .max = 100,
     .fallback = "9",
     .doc = "On GEMM time, where rows are no multiple of 16 bytes."},
    EFFICIENCY("fp8_efficiency", fp8_efficiency, "Of the FP8 peak in the main loop."),
    EFFICIENCY("fp4_efficiency", fp4_efficiency, "Of the FP4 peak in the main loop."),
    ERROR_OF("gemm_error", gemm_error_frac),
    EFFICIENCY("grouped_frac", grouped_frac, "Grouped by batched efficiency."),
    SECONDS(orr_arch_fit, "group", group_s, "Host and launch per local expert."),
    ERROR_OF("grouped_error", grouped_error_frac),
    SECONDS(orr_arch_fit, "attention_start", attention.start_s, "Launch of an attention kernel."),
    EFFICIENCY("attention", attention.efficiency, "Of peak, head dimension 120 and up."),
    EFFICIENCY("attention_medium", attention.medium_frac, "Of it below 120."),
    EFFICIENCY("attention_narrow", attention.narrow_frac, "Of it below 80."),
    SECONDS(orr_arch_fit, "attention_tile", attention.tile_s, "Ramp of one tile."),
    EFFICIENCY("attention_backward_flops", attention.backward_flops, "Arithmetic by forward."),
    EFFICIENCY("attention_backward", attention.backward_frac, "Efficiency by forward."),
    ERROR_OF("attention_error", attention_error_frac),
    SECONDS(orr_arch_fit, "memory_start", memory_start_s, "Each memory-bound kernel."),
    {.name = "memory_scale",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_arch_fit, memory_scale),
     .min = 0.1,
     .max = 2,
     .fallback = "1",
     .doc = "On the shares of HBM bandwidth that follow."},
    FAMILY("elementwise", ORR_MEMOP_ELEMENTWISE),
    FAMILY("norm_fwd", ORR_MEMOP_NORM_FWD),
    FAMILY("norm_bwd", ORR_MEMOP_NORM_BWD),
    FAMILY("softmax", ORR_MEMOP_SOFTMAX),
    FAMILY("permute", ORR_MEMOP_PERMUTE),
    FAMILY("loss", ORR_MEMOP_LOSS),
    FAMILY("embedding", ORR_MEMOP_EMBEDDING),
    FAMILY("cast", ORR_MEMOP_CAST),
    FAMILY("eager", ORR_MEMOP_EAGER),
    {.name = "bulk",
     .type = ORR_FIELD_REAL,
     .offset = AT(orr_arch_fit, memory_frac[ORR_MEMOP_BULK]),
     .min = 1e-3,
     .max = 10,
     .fallback = "0.85",
     .doc = "Share of HBM bandwidth reached, whatever the software says."},
    ERROR_OF("memory_error", memory_error_frac),
};
static const orr_schema ARCH_SCHEMA = {"architecture fit", ARCH_FIELDS,
                                       sizeof ARCH_FIELDS / sizeof *ARCH_FIELDS, false};

#define ADDS(key, member, text) NUMBER(orr_transfer, key, member, 0, 10, text)
static const orr_field TRANSFER_FIELDS[] = {
    TEXT(orr_transfer, "source", source, "What it was judged on."),
    NUMBER(orr_transfer, "power", power, 0, 1, "Of efficiency, over watts a flop/s."),
    ADDS("gemm_sibling", gemm_sibling_frac, "Error of a GEMM by a sibling's fit."),
    ADDS("gemm_distance", gemm_distance_frac, "More, an e-fold between the sheets."),
    ADDS("gemm_stranger", gemm_stranger_frac, "Error by another architecture's fit."),
    ADDS("device", device_frac, "Another device of the architecture."),
    ADDS("architecture", arch_frac, "Another architecture."),
    ADDS("kernel", kernel_frac, "Another library."),
    ADDS("scheme", scheme_frac, "Another numeric scheme."),
    ADDS("direction", direction_frac, "Forward for backward, or the reverse."),
    ADDS("mask", mask_frac, "Causal for full attention, or the reverse."),
};
static const orr_schema TRANSFER_SCHEMA = {"transfer", TRANSFER_FIELDS,
                                           sizeof TRANSFER_FIELDS / sizeof *TRANSFER_FIELDS, false};

double *orr_arch_number(orr_arch_fit *arch, const char *name) {
    return orr_schema_number(&ARCH_SCHEMA, arch, name);
}

/* A bool field is a byte of type bool; records keep it in a uint8_t of the same size. */
_Static_assert(sizeof(bool) == sizeof(uint8_t), "flags are read as bool");

/* Reads one record into the next place of a table of `ORR_MAX_FITS`. */
static orr_status add_record(orr_arena *arena, const orr_schema *schema, const orr_tree *record,
                             void *table, size_t record_bytes, uint32_t *count, orr_err *err) {
    if (*count == ORR_MAX_FITS) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than %d of %s",
                           (int)ORR_MAX_FITS, schema->title);
    }
    void *place = (char *)table + *count * record_bytes;
    ORR_TRY(orr_schema_read(schema, arena, record, place, NULL, err));
    (*count)++;
    return ORR_OK;
}

static orr_status read_surface(orr_arena *arena, const orr_tree *record, const char *text,
                               const orr_surface **out, orr_err *err) {
    orr_surface *surface = NULL;
    if (text != NULL) {
        orr_span at = orr_tree_span(orr_tree_get(record, "surface"));
        ORR_TRY(orr_surface_read(arena, text, at, &surface, err));
    }
    *out = surface;
    return ORR_OK;
}

static orr_status add_gemm(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                           orr_err *err) {
    ORR_TRY(add_record(arena, &GEMM_SCHEMA, record, into->gemm, sizeof *into->gemm,
                       &into->gemm_count, err));
    orr_fit *fit = &into->gemm[into->gemm_count - 1].fit;
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_flash(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                            orr_err *err) {
    ORR_TRY(add_record(arena, &FLASH_SCHEMA, record, into->flash, sizeof *into->flash,
                       &into->flash_count, err));
    orr_fit *fit = &into->flash[into->flash_count - 1].fit;
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_stream(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                             orr_err *err) {
    ORR_TRY(add_record(arena, &STREAM_SCHEMA, record, into->stream, sizeof *into->stream,
                       &into->stream_count, err));
    orr_fit *fit = &into->stream[into->stream_count - 1].fit;
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_experts(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                              orr_err *err) {
    ORR_TRY(add_record(arena, &EXPERTS_SCHEMA, record, into->experts, sizeof *into->experts,
                       &into->experts_count, err));
    orr_fit *fit = &into->experts[into->experts_count - 1].fit;
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_exchange(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    ORR_TRY(add_record(arena, &EXCHANGE_SCHEMA, record, into->exchange, sizeof *into->exchange,
                       &into->exchange_count, err));
    orr_fit *fit = &into->exchange[into->exchange_count - 1].fit;
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_collective(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                                 orr_err *err) {
    ORR_TRY(add_record(arena, &COLLECTIVE_SCHEMA, record, into->collective,
                       sizeof *into->collective, &into->collective_count, err));
    orr_collective_fit *fit = &into->collective[into->collective_count - 1];
    return read_surface(arena, record, fit->surface_text, &fit->surface, err);
}

static orr_status add_arch(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                           orr_err *err) {
    if (into->arch_count == ORR_ARCH_COUNT) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record),
                           "more than one record an architecture");
    }
    orr_arch_fit *fit = &into->arch[into->arch_count];
    ORR_TRY(orr_schema_read(&ARCH_SCHEMA, arena, record, fit, NULL, err));
    for (uint32_t i = 0; i < into->arch_count; i++) {
        if (into->arch[i].arch == fit->arch) {
            return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(record),
                               "architecture %s is described twice", ARCHES[fit->arch]);
        }
    }
    into->arch_count++;
    return ORR_OK;
}

/* A system of the tables: an accelerator, and what is built otherwise than usual. */
typedef struct site {
    const char *device;
    double nic_Bps, link_Bps; /* 0: as usual */
    uint8_t topology;         /* 0: as usual, else one more than orr_topology */
} site;
static const char *const SITE_TOPOLOGIES[] = {"usual", "switched", "mesh", "torus", "host", NULL};
static const orr_field SITE_FIELDS[] = {
    {.name = "device",
     .type = ORR_FIELD_TEXT,
     .offset = AT(site, device),
     .doc = "Catalog name of the accelerator."},
    USUAL_RATE(site, "nic", nic_Bps, "Network bandwidth of one accelerator; 0: the usual."),
    USUAL_RATE(site, "link", link_Bps, "Scale-up links of one accelerator; 0: the usual."),
    {.name = "topology",
     .type = ORR_FIELD_ENUM,
     .offset = AT(site, topology),
     .values = SITE_TOPOLOGIES,
     .fallback = "usual",
     .doc = "How its links are laid."},
};
static const orr_schema SITE_SCHEMA = {"system", SITE_FIELDS,
                                       sizeof SITE_FIELDS / sizeof *SITE_FIELDS, false};

static orr_status read_site(orr_arena *arena, const orr_tree *entry, const char *name, site *out,
                            orr_err *err) {
    *out = (site){.device = orr_tree_text(entry, name)};
    return orr_tree_kind_of(entry) == ORR_TREE_MAP
               ? orr_schema_read(&SITE_SCHEMA, arena, entry, out, NULL, err)
               : ORR_OK;
}

/* Names of accelerators and systems; what is wrong with an entry is said now. */
static orr_status add_devices(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                              orr_err *err) {
    const orr_tree *names = orr_tree_get(file, "names");
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        site s;
        ORR_TRY(read_site(arena, orr_tree_at(names, i), orr_tree_key(names, i), &s, err));
    }
    into->devices = names;
    return ORR_OK;
}

static const orr_field LEFT_OUT_FIELDS[] = {
    TEXT(orr_left_out, "class", class, "Class of kernel table."),
    TEXT(orr_left_out, "device", device, "Catalog name of what was left out."),
    CHOICE(orr_left_out, "arch", arch, ARCHES, "Its architecture."),
    FLAG(orr_left_out, "sibling", sibling, "Another device of it remained."),
    {.name = "rows", .type = ORR_FIELD_U32, .offset = AT(orr_left_out, rows), .doc = "Priced."},
    NUMBER(orr_left_out, "mape", mape_frac, 0, 1e6, "Mean error, training sizes."),
};
static const orr_schema LEFT_OUT_SCHEMA = {"device left out", LEFT_OUT_FIELDS,
                                           sizeof LEFT_OUT_FIELDS / sizeof *LEFT_OUT_FIELDS, false};

static orr_status add_left_out(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    if (into->left_out_count == ORR_MOST_LEFT_OUT) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than %d devices left out",
                           (int)ORR_MOST_LEFT_OUT);
    }
    return orr_schema_read(&LEFT_OUT_SCHEMA, arena, record, &into->left_out[into->left_out_count++],
                           NULL, err);
}

static orr_status add_transfer(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    if (into->transfer.source != NULL) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than one transfer");
    }
    return orr_schema_read(&TRANSFER_SCHEMA, arena, record, &into->transfer, NULL, err);
}

orr_status orr_calibration_add(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                               orr_err *err) {
    static const struct {
        const char *class;
        orr_status (*add)(orr_arena *, const orr_tree *, orr_calibration *, orr_err *);
    } classes[] = {{"gemm", add_gemm},
                   {"attention", add_flash},
                   {"memops", add_stream},
                   {"grouped_gemm", add_experts},
                   {"moe_fused", add_experts},
                   {"ep_alltoall", add_exchange},
                   {"collectives", add_collective},
                   {"architecture", add_arch},
                   {"transfer", add_transfer},
                   {"left_out", add_left_out}};
    const orr_tree *name = orr_tree_get(file, "class");
    if (strcmp(orr_tree_text(name, ""), "devices") == 0) {
        return add_devices(arena, file, into, err);
    }
    const orr_tree *fits = orr_tree_get(file, "fits");
    if (orr_tree_kind_of(fits) != ORR_TREE_LIST) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(file),
                           "a calibration file needs a list \"fits\"");
    }
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(orr_tree_text(name, ""), classes[i].class) != 0) {
            continue;
        }
        for (size_t r = 0; r < orr_tree_size(fits); r++) {
            ORR_TRY(classes[i].add(arena, orr_tree_at(fits, r), into, err));
        }
        return ORR_OK;
    }
    return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(name ? name : file),
                       "unknown class \"%s\" of a calibration file, expected gemm, attention, "
                       "memops, grouped_gemm, moe_fused, ep_alltoall, collectives, "
                       "architecture, transfer, left_out or devices",
                       orr_tree_text(name, ""));
}

/* Adds the built-in files of a folder of data/ (not of folders inside it). */
static orr_status add_folder(orr_arena *arena, const char *folder, orr_calibration *into,
                             orr_err *err) {
    size_t length = strlen(folder);
    for (size_t i = 0; i < orr_embedded_count; i++) {
        const orr_embedded *file = &orr_embedded_files[i];
        if (strncmp(file->path, folder, length) == 0 && !strchr(file->path + length, '/')) {
            orr_tree *tree = NULL;
            ORR_TRY(orr_doc_read(arena, file->path, file->bytes, file->length, &tree, err));
            ORR_TRY(orr_calibration_add(arena, tree, into, err));
        }
    }
    return ORR_OK;
}

static void widen(orr_fit *fit, uint32_t rows) {
    if (rows < ORR_THIN_ROWS) {
        fit->assumed = 1;
        fit->error_small_frac = orr_max_f64(fit->error_small_frac, ORR_THIN_RELERR);
        fit->error_training_frac = orr_max_f64(fit->error_training_frac, ORR_THIN_RELERR);
    }
}

/* Measurements of a device over all fits of one list. */
#define ROWS_OF(list, list_count, device_of, rows_of, name, sum)                                   \
    do {                                                                                           \
        (sum) = 0;                                                                                 \
        for (uint32_t other = 0; other < into->list_count; other++) {                              \
            if (strcmp(into->list[other].device_of, (name)) == 0) {                                \
                (sum) += into->list[other].rows_of;                                                \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define MARK(list, list_count)                                                                     \
    for (uint32_t i = 0; i < into->list_count; i++) {                                              \
        uint32_t rows;                                                                             \
        ROWS_OF(list, list_count, fit.device, fit.rows, into->list[i].fit.device, rows);           \
        widen(&into->list[i].fit, rows);                                                           \
    }

static void mark_thin(orr_calibration *into) {
    MARK(gemm, gemm_count)
    MARK(flash, flash_count)
    MARK(stream, stream_count)
    MARK(experts, experts_count)
    MARK(exchange, exchange_count)
    for (uint32_t i = 0; i < into->collective_count; i++) {
        orr_collective_fit *fit = &into->collective[i];
        uint32_t rows;
        ROWS_OF(collective, collective_count, device, rows, fit->device, rows);
        if (rows < ORR_THIN_ROWS) {
            fit->assumed = 1;
            fit->error_small_frac = orr_max_f64(fit->error_small_frac, ORR_THIN_RELERR);
            fit->error_training_frac = orr_max_f64(fit->error_training_frac, ORR_THIN_RELERR);
        }
    }
}

orr_status orr_calibration_builtin(orr_arena *arena, orr_calibration **out, orr_err *err) {
    orr_calibration *calibration = ORR_NEW(arena, orr_calibration);
    ORR_TRY(add_folder(arena, "calibration/", calibration, err));
    mark_thin(calibration);
    *out = calibration;
    return ORR_OK;
}

/* Each device once: a file holds dozens of fits of it. */
typedef struct sheets {
    uint32_t count;
    struct {
        const char *device;
        const orr_accelerator *accelerator; /* NULL: not in the catalog */
    } of[64];
} sheets;

static const orr_accelerator *sheet_of(orr_arena *arena, sheets *known, const char *device) {
    for (uint32_t i = 0; i < known->count; i++) {
        if (strcmp(known->of[i].device, device) == 0) {
            return known->of[i].accelerator;
        }
    }
    orr_accelerator *found = NULL;
    (void)orr_accelerator_find(arena, device, &found, NULL);
    if (known->count < sizeof known->of / sizeof *known->of) {
        known->of[known->count].device = device;
        known->of[known->count++].accelerator = found;
    }
    return found;
}

static void look_up_sheet(orr_arena *arena, sheets *known, orr_fit *fit) {
    const orr_accelerator *sheet = sheet_of(arena, known, fit->device);
    if (sheet != NULL) {
        fit->fp4_flops = sheet->peak_flops[ORR_NVFP4];
        fit->bf16_flops = sheet->peak_flops[ORR_BF16];
        fit->exp_per_clock = sheet->exp_per_clock;
    }
}

static void look_up_sheets(orr_arena *arena, orr_calibration *into) {
    sheets known = {0};
    for (uint32_t i = 0; i < into->gemm_count; i++) {
        look_up_sheet(arena, &known, &into->gemm[i].fit);
    }
    for (uint32_t i = 0; i < into->flash_count; i++) {
        look_up_sheet(arena, &known, &into->flash[i].fit);
    }
    for (uint32_t i = 0; i < into->experts_count; i++) {
        look_up_sheet(arena, &known, &into->experts[i].fit);
    }
}

orr_status orr_calibration_kernels(orr_arena *arena, orr_calibration *into, orr_err *err) {
    ORR_TRY(add_folder(arena, "calibration/kernels/", into, err));
    mark_thin(into);
    look_up_sheets(arena, into);
    return ORR_OK;
}

orr_status orr_calibration_folder(orr_arena *arena, const char *folder, orr_calibration **out,
                                  orr_err *err) {
    static const char HERE[] = "calibration/";
    orr_calibration *calibration = ORR_NEW(arena, orr_calibration);
    for (size_t i = 0; i < orr_embedded_count; i++) {
        const char *path = orr_embedded_files[i].path;
        if (strncmp(path, HERE, sizeof HERE - 1) == 0) {
            const char *file = orr_arena_format(arena, "%s/%s", folder, path + sizeof HERE - 1);
            orr_tree *tree = NULL;
            ORR_TRY(orr_doc_read_file(arena, file, &tree, err));
            ORR_TRY(orr_calibration_add(arena, tree, calibration, err));
        }
    }
    mark_thin(calibration);
    look_up_sheets(arena, calibration);
    *out = calibration;
    return ORR_OK;
}

#define DROP(list, count, device_of)                                                               \
    do {                                                                                           \
        uint32_t kept = 0;                                                                         \
        for (uint32_t i = 0; i < out->count; i++) {                                                \
            if (!orr_name_equal(out->list[i].device_of, device)) {                                 \
                out->list[kept++] = out->list[i];                                                  \
            }                                                                                      \
        }                                                                                          \
        out->count = kept;                                                                         \
    } while (0)

orr_calibration *orr_calibration_without(orr_arena *arena, const orr_calibration *from,
                                         const char *device) {
    orr_calibration *out = ORR_NEW(arena, orr_calibration);
    *out = *from;
    DROP(gemm, gemm_count, fit.device);
    DROP(flash, flash_count, fit.device);
    DROP(stream, stream_count, fit.device);
    DROP(experts, experts_count, fit.device);
    DROP(exchange, exchange_count, fit.device);
    DROP(collective, collective_count, device);
    return out;
}

static bool is_sibling(orr_arena *arena, const orr_accelerator *accelerator, const char *device) {
    orr_accelerator *other = NULL;
    return !orr_name_equal(device, accelerator->name) &&
           orr_accelerator_find(arena, device, &other, NULL) == ORR_OK &&
           other->arch == accelerator->arch;
}

/* Of the same architecture and laid out alike, with links of about the same bandwidth. */
static const double NEAR_LINKS = 0.7; /* ln; a factor of two */
static bool has_linked_sibling(orr_arena *arena, const orr_calibration *calibration,
                               const orr_accelerator *accelerator) {
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        bool links = fabs(log(fit->link_Bps / accelerator->link_Bps)) < NEAR_LINKS;
        if (links && fit->nodes <= 1 && fit->topology == accelerator->topology &&
            is_sibling(arena, accelerator, fit->device)) {
            return true;
        }
    }
    return false;
}

#define ANY(list, count, device_of)                                                                \
    do {                                                                                           \
        for (uint32_t i = 0; i < calibration->count; i++) {                                        \
            if (is_sibling(arena, accelerator, calibration->list[i].device_of)) {                  \
                return true;                                                                       \
            }                                                                                      \
        }                                                                                          \
        return false;                                                                              \
    } while (0)

bool orr_calibration_has_sibling(orr_arena *arena, const orr_calibration *calibration,
                                 const char *class, const orr_accelerator *accelerator) {
    if (strcmp(class, "gemm") == 0) {
        ANY(gemm, gemm_count, fit.device);
    } else if (strcmp(class, "attention") == 0) {
        ANY(flash, flash_count, fit.device);
    } else if (strcmp(class, "memops") == 0) {
        ANY(stream, stream_count, fit.device);
    } else if (strcmp(class, "collectives") == 0) {
        return has_linked_sibling(arena, calibration, accelerator);
    } else if (strcmp(class, "ep_alltoall") == 0) {
        ANY(exchange, exchange_count, fit.device);
    }
    ANY(experts, experts_count, fit.device);
}

/* ---- choosing ------------------------------------------------------------------------------- */

static bool is_amd(uint8_t arch) {
    return arch == ORR_ARCH_CDNA2 || arch == ORR_ARCH_CDNA3 || arch == ORR_ARCH_CDNA4;
}

/* Where an architecture stands among those of its vendor. */
static double generation(uint8_t arch) {
    static const double GENERATION[ORR_ARCH_COUNT] = {
        [ORR_ARCH_VOLTA] = 0,  [ORR_ARCH_AMPERE] = 1,          [ORR_ARCH_ADA] = 2,
        [ORR_ARCH_HOPPER] = 3, [ORR_ARCH_BLACKWELL_RTX] = 3.6, [ORR_ARCH_BLACKWELL] = 4,
        [ORR_ARCH_CDNA2] = 5,  [ORR_ARCH_CDNA3] = 6,           [ORR_ARCH_CDNA4] = 7,
        [ORR_ARCH_OTHER] = 8,
    };
    return arch < ORR_ARCH_COUNT ? GENERATION[arch] : 0;
}

double orr_arch_distance(const orr_accelerator *accelerator, uint8_t arch) {
    if (accelerator->arch == arch) {
        return 0;
    }
    bool amd = accelerator->vendor == ORR_AMD;
    return (amd == is_amd(arch) ? 100 : 1000) +
           fabs(generation(accelerator->arch) - generation(arch));
}

double orr_sheet_distance(const orr_accelerator *accelerator, const orr_fit *fit) {
    if (accelerator->like != NULL && orr_name_equal(fit->device, accelerator->like)) {
        return 0;
    }
    double own = accelerator->peak_flops[ORR_NVFP4];
    double refresh = own > 0 && fit->fp4_flops > 0 ? fabs(log(own / fit->fp4_flops)) : 0;
    return fabs(log(accelerator->units / fit->units)) +
           fabs(log(accelerator->hbm_Bps / fit->hbm_Bps)) + refresh;
}

static orr_kin kin_of(double distance, bool same) {
    return same ? ORR_KIN_SAME : distance < 100 ? ORR_KIN_ARCH : ORR_KIN_OTHER;
}

orr_accelerator *orr_calibration_device(orr_arena *arena, const orr_calibration *calibration,
                                        const char *name) {
    site s;
    orr_accelerator *out = NULL;
    if (read_site(arena, orr_tree_get(calibration->devices, name), name, &s, NULL) != ORR_OK ||
        strchr(s.device, '/') != NULL || /* a name of two parts, never a file */
        orr_accelerator_find(arena, s.device, &out, NULL) != ORR_OK) {
        return NULL;
    }
    out->nic_Bps = s.nic_Bps > 0 ? s.nic_Bps : out->nic_Bps;
    out->link_Bps = s.link_Bps > 0 ? s.link_Bps : out->link_Bps;
    out->topology = s.topology > 0 ? (uint8_t)(s.topology - 1) : out->topology;
    return out;
}

orr_machine orr_scheme_machine(const orr_accelerator *accelerator, const char *scheme,
                               orr_dtype dtype) {
    orr_machine machine = orr_machine_of(accelerator, dtype);
    if (strstr(scheme, "fp4") != NULL && !(accelerator->peak_flops[dtype] > 0) &&
        accelerator->peak_flops[ORR_FP8] > 0) {
        machine.peak_flops = 2 * accelerator->peak_flops[ORR_FP8];
    }
    return machine;
}

bool orr_scheme_dtype(const char *scheme, orr_dtype *out) {
    static const struct {
        const char *scheme;
        orr_dtype dtype;
    } known[] = {{"bf16", ORR_BF16},
                 {"fp16", ORR_FP16},
                 {"fp8", ORR_FP8},
                 {"fp8_e4m3", ORR_FP8},
                 {"fp8_dynquant", ORR_FP8},
                 {"fp8_row", ORR_FP8},
                 {"fp8_block128", ORR_FP8_BLOCK},
                 {"mxfp8", ORR_MXFP8},
                 {"nvfp4", ORR_NVFP4},
                 {"nvfp4_dynquant", ORR_NVFP4},
                 {"mxfp4", ORR_NVFP4},
                 {"bfloat16", ORR_BF16},
                 {"fp8_block", ORR_FP8_BLOCK},
                 {"int4", ORR_NVFP4},
                 {"int8", ORR_FP8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(scheme, known[i].scheme) == 0) {
            *out = known[i].dtype;
            return true;
        }
    }
    return false;
}

const orr_gemm_fit *orr_calibration_gemm(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, const char *scheme,
                                         orr_kin *kin) {
    const orr_gemm_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->gemm_count; i++) {
        const orr_gemm_fit *fit = &calibration->gemm[i];
        if (strcmp(fit->scheme, scheme) != 0) {
            continue;
        }
        bool same = orr_name_equal(fit->fit.device, accelerator->name);
        double arch = orr_arch_distance(accelerator, fit->fit.arch);
        double distance = same ? -1 : arch + orr_sheet_distance(accelerator, &fit->fit);
        if (distance < least) {
            least = distance;
            best = fit;
            *kin = kin_of(arch, same);
        }
    }
    return best;
}

orr_gemm_constants orr_gemm_transfer(const orr_gemm_fit *fit, const orr_accelerator *accelerator) {
    orr_gemm_constants c = fit->constants;
    double peak = orr_scheme_machine(accelerator, fit->scheme, (orr_dtype)fit->dtype).peak_flops /
                  fit->fit.peak_flops;
    c.unit_Bps *= peak * fit->fit.units / accelerator->units;
    double power = fit->fit.tdp_w > 0 ? accelerator->tdp_w / fit->fit.tdp_w : 1;
    if (accelerator->arch == fit->fit.arch && power > peak) {
        /* sustained arithmetic is what the power limit feeds */
        c.throttle = orr_max_f64(0, (1 + c.throttle) * peak / power - 1);
    }
    return c;
}

double orr_device_apart(const orr_transfer *transfer, const orr_accelerator *accelerator,
                        const orr_fit *fit) {
    if (orr_name_equal(fit->device, accelerator->name)) {
        return 0;
    }
    double arch = orr_arch_distance(accelerator, fit->arch);
    return (arch < 100 ? transfer->device_frac : transfer->arch_frac) +
           1e-3 * (orr_sheet_distance(accelerator, fit) + orr_min_f64(arch, 1e4) * 1e-2);
}

static double library_apart(const orr_transfer *transfer, const orr_accelerator *accelerator,
                            const orr_fit *fit, const char *own_kernel, const char *own_scheme,
                            const char *kernel, const char *scheme) {
    return orr_device_apart(transfer, accelerator, fit) +
           (strcmp(own_kernel, kernel) == 0 ? 0 : transfer->kernel_frac) +
           (strcmp(own_scheme, scheme) == 0 ? 0 : transfer->scheme_frac);
}

const orr_experts_fit *orr_calibration_experts(const orr_calibration *calibration,
                                               const orr_accelerator *accelerator,
                                               const char *kernel, const char *scheme,
                                               double *apart_frac) {
    const orr_experts_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->experts_count; i++) {
        const orr_experts_fit *fit = &calibration->experts[i];
        double apart = library_apart(&calibration->transfer, accelerator, &fit->fit, fit->kernel,
                                     fit->scheme, kernel, scheme);
        if (apart < least) {
            least = apart;
            best = fit;
        }
    }
    *apart_frac = least;
    return best;
}

const orr_exchange_fit *orr_calibration_exchange(const orr_calibration *calibration,
                                                 const orr_accelerator *accelerator,
                                                 const char *kernel, const char *scheme,
                                                 double *apart_frac) {
    const orr_exchange_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->exchange_count; i++) {
        const orr_exchange_fit *fit = &calibration->exchange[i];
        double apart = library_apart(&calibration->transfer, accelerator, &fit->fit, fit->kernel,
                                     fit->scheme, kernel, scheme);
        if (apart < least) {
            least = apart;
            best = fit;
        }
    }
    *apart_frac = least;
    return best;
}

const orr_stream_fit *orr_calibration_stream(const orr_calibration *calibration,
                                             const orr_accelerator *accelerator, const char *kernel,
                                             double *apart_frac) {
    const orr_stream_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->stream_count; i++) {
        const orr_stream_fit *fit = &calibration->stream[i];
        double apart =
            orr_device_apart(&calibration->transfer, accelerator, &fit->fit) +
            (strcmp(fit->kernel, kernel) == 0 ? 0 : 2 * calibration->transfer.kernel_frac);
        if (apart < least) {
            least = apart;
            best = fit;
        }
    }
    *apart_frac = least;
    return best;
}

const orr_arch_fit *orr_calibration_arch(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, orr_kin *kin) {
    const orr_arch_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->arch_count; i++) {
        double distance = orr_arch_distance(accelerator, calibration->arch[i].arch);
        if (distance < least) {
            least = distance;
            best = &calibration->arch[i];
            *kin = kin_of(distance, false);
        }
    }
    return best;
}

/* What training uses. */
static bool serves_training(const orr_collective_fit *fit, orr_collective op) {
    bool library = strncmp(fit->library, "NCCL", 4) == 0 || strncmp(fit->library, "RCCL", 4) == 0;
    return library && fit->op == op && fit->nodes <= 1;
}

/* The device whose collectives stand for an accelerator's. */
static const orr_collective_fit *collective_donor(const orr_calibration *calibration,
                                                  const orr_accelerator *accelerator,
                                                  orr_collective op, orr_kin *kin) {
    const orr_collective_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        if (!serves_training(fit, op)) {
            continue;
        }
        bool same = orr_name_equal(fit->device, accelerator->name);
        double topology = fit->topology == accelerator->topology ? 0 : 1000;
        double link = fabs(log(accelerator->link_Bps / fit->link_Bps));
        double distance = same ? -1 : topology + link;
        if (distance < least) {
            least = distance;
            best = fit;
            *kin = same ? ORR_KIN_SAME : distance < NEAR_LINKS ? ORR_KIN_ARCH : ORR_KIN_OTHER;
        }
    }
    return best;
}

uint32_t orr_calibration_collective(const orr_calibration *calibration,
                                    const orr_accelerator *accelerator, orr_collective op,
                                    const orr_collective_fit *out[ORR_MAX_RANK_POINTS],
                                    orr_kin *kin) {
    const orr_collective_fit *donor = collective_donor(calibration, accelerator, op, kin);
    uint32_t count = 0;
    for (uint32_t i = 0; donor != NULL && i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        if (!serves_training(fit, op) || strcmp(fit->device, donor->device) != 0) {
            continue;
        }
        /* a record of a newer library comes later and replaces the older one */
        uint32_t at = 0;
        while (at < count && out[at]->ranks < fit->ranks) {
            at++;
        }
        if (at < count && out[at]->ranks == fit->ranks) {
            out[at] = fit;
        } else if (count < ORR_MAX_RANK_POINTS) {
            for (uint32_t j = count; j > at; j--) {
                out[j] = out[j - 1];
            }
            out[at] = fit;
            count++;
        }
    }
    return count;
}
