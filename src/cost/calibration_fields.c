/* The fields of calibration files, record by record: what is read, documented and fitted by name.
 */
#include <stddef.h>
#include <string.h>

#include "cost/calibration_int.h"

static const char *const ARCHES[] = {ORR_ARCH_WORDS, NULL};
static const char *const DTYPES[] = {ORR_DTYPE_WORDS, NULL};
static const char *const OPS[] = {ORR_COLLECTIVE_WORDS, NULL};
static const char *const TOPOLOGIES[] = {ORR_TOPOLOGY_WORDS, NULL};
_Static_assert(sizeof OPS / sizeof *OPS == ORR_COLLECTIVE_COUNT + 1, "one name an operation");

const char *orr_collective_name(orr_collective op) {
    return op < ORR_COLLECTIVE_COUNT ? OPS[op] : "unknown";
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
/* A bool field is a byte of type bool; records keep it in a uint8_t of the same size. */
_Static_assert(sizeof(bool) == sizeof(uint8_t), "flags are read as bool");
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
/* A number that a file may leave out. */
#define USUALLY(T, key, member, least, most, usual, text)                                          \
    {.name = (key),                                                                                \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = AT(T, member),                                                                      \
     .min = (least),                                                                               \
     .max = (most),                                                                                \
     .fallback = (usual),                                                                          \
     .doc = (text)}
#define ROWS(T, member)                                                                            \
    {.name = "rows",                                                                               \
     .type = ORR_FIELD_U32,                                                                        \
     .offset = AT(T, member),                                                                      \
     .fallback = "0",                                                                              \
     .doc = "Measurements behind it."}
#define LINE(T, key, member, text)                                                                 \
    {.name = (key), .type = ORR_FIELD_TEXT, .offset = AT(T, member), .fallback = "", .doc = (text)}
/* What a fit holds over the space of shapes. */
#define SHAPE_FIELDS(T)                                                                            \
    LINE(T, "surface", fit.surface_text,                                                           \
         "What is left beyond the constants, over shapes: cost/surface.h."),                       \
        LINE(T, "spread", fit.spread_text, "ln of a factor on the errors, over shapes."),          \
        LINE(T, "covers", fit.cover_text, "log2 of the least and the most of each size.")
/* The fields of orr_fit inside a record. */
#define FIT_FIELDS(T)                                                                              \
    TEXT(T, "device", fit.device, "Catalog name of the accelerator it was measured on."),          \
        TEXT(T, "source", fit.source, "Tables or documents, with versions."),                      \
        CHOICE(T, "arch", fit.arch, ARCHES, "Architecture whose other devices may use it."),       \
        FLAG(T, "assumed", fit.assumed, "Not measured: from documents or by analogy."),            \
        ROWS(T, fit.rows),                                                                         \
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
        SHAPE_FIELDS(T)

#define TILE(shape, index)                                                                         \
    USUALLY(orr_gemm_fit, "tile_" shape, constants.tile_gain[index], 1e-3, 1e3, "1",               \
            "Main-loop efficiency of this tile by that of 128x128.")

static const orr_field GEMM_FIELDS[] = {
    FIT_FIELDS(orr_gemm_fit),
    CHOICE(orr_gemm_fit, "dtype", dtype, DTYPES, "Element type of the operands."),
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
    USUALLY(orr_gemm_fit, "quantise_frac", constants.quantise_frac, 0, 10, "0",
            "HBM share of the quantising kernel in the measured time; 0: none."),
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
    NUMBER(orr_flash_fit, key, constants.efficiency[index], 0, 10, "Of peak; 0: no such rows.")
static const orr_field FLASH_FIELDS[] = {
    FIT_FIELDS(orr_flash_fit),
    TEXT(orr_flash_fit, "kernel", kernel, "Library, as kernel tables name it."),
    TEXT(orr_flash_fit, "scheme", scheme, "Name of the dtype in kernel tables."),
    FLAG(orr_flash_fit, "backward", backward, "Gradients; else the forward."),
    USUALLY(orr_flash_fit, "causal_share", causal_share, 0, 1, "0.5", "Of its rows, causal."),
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
    USUALLY(orr_flash_fit, "deterministic", constants.deterministic_frac, 1e-2, 10, "1",
            "Of it, sums in one order."),
    USUALLY(orr_flash_fit, "masked", constants.masked_frac, 0, 1, "0",
            "Of the keys outside a window, computed."),
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
    NUMBER(orr_experts_fit, "read_bytes", constants.read_bytes, 0, 1e3, "Of an activation."),
    NUMBER(orr_experts_fit, "write_bytes", constants.write_bytes, 0, 1e3, "Of an activation."),
    NUMBER(orr_experts_fit, "depth", constants.depth, 0, 1e5, "Columns to fill the units."),
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
    TEXT(orr_collective_fit, "device", fit.device,
         "Catalog name of the accelerator it was measured on."),
    {.name = "system",
     .type = ORR_FIELD_TEXT,
     .offset = AT(orr_collective_fit, site),
     .fallback = "",
     .doc = "What tables of measured collectives call it."},
    TEXT(orr_collective_fit, "source", fit.source, "Tables or documents."),
    TEXT(orr_collective_fit, "library", library, "Communication library and version."),
    CHOICE(orr_collective_fit, "op", op, OPS, "Operation."),
    CHOICE(orr_collective_fit, "topology", topology, TOPOLOGIES,
           "How the device's links are laid."),
    FLAG(orr_collective_fit, "assumed", fit.assumed, "Not measured: by analogy."),
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
    NUMBER(orr_collective_fit, "error_small", fit.error_small_frac, 0, 10,
           "Relative error, one sd, under 1 MB."),
    NUMBER(orr_collective_fit, "error_training", fit.error_training_frac, 0, 10, "From 1 MB."),
    USUALLY(orr_collective_fit, "mape_all", fit.mape_all_frac, 0, 10, "0",
            "Mean error of rows left out."),
    USUALLY(orr_collective_fit, "mape_training", fit.mape_training_frac, 0, 10, "0",
            "The same, training sizes."),
    USUALLY(orr_collective_fit, "bias", fit.bias_frac, -10, 10, "0",
            "Median error of rows left out."),
    ROWS(orr_collective_fit, fit.rows),
    SECONDS(orr_collective_fit, "start", message.start_s, "Of the smallest message."),
    RATE(orr_collective_fit, "rate", message.Bps, "Bus bandwidth of the largest."),
    SECONDS(orr_collective_fit, "piece", message.piece_s, "Each piece of a message."),
    SHAPE_FIELDS(orr_collective_fit),
};
static const orr_schema COLLECTIVE_SCHEMA = {"collective fit", COLLECTIVE_FIELDS,
                                             sizeof COLLECTIVE_FIELDS / sizeof *COLLECTIVE_FIELDS,
                                             false};

#define EFFICIENCY(key, member, text) NUMBER(orr_arch_fit, key, member, 1e-3, 10, text)
#define ERROR_OF(key, member) NUMBER(orr_arch_fit, key, member, 0, 10, "Relative error, one sd.")
#define FAMILY(key, index) EFFICIENCY(key, memory_frac[index], "Share of HBM bandwidth reached.")

static const orr_field ARCH_FIELDS[] = {
    TEXT(orr_arch_fit, "source", source, "What it was fitted on."),
    CHOICE(orr_arch_fit, "arch", arch, ARCHES, "Architecture."),
    FLAG(orr_arch_fit, "assumed", assumed, "By analogy with another architecture."),
    EFFICIENCY("gemm_factor", gemm_factor, "On the sustained GEMM time."),
    USUALLY(orr_arch_fit, "gemm_sustained", gemm_sustained, 0.5, 2, "1",
            "Sustained power by the throttle that short benchmarks show."),
    USUALLY(orr_arch_fit, "misaligned", misaligned, 1, 100, "9",
            "On GEMM time, where rows are no multiple of 16 bytes."),
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
    USUALLY(orr_arch_fit, "memory_scale", memory_scale, 0.1, 2, "1",
            "On the shares of HBM bandwidth that follow."),
    FAMILY("elementwise", ORR_MEMOP_ELEMENTWISE),
    FAMILY("norm_fwd", ORR_MEMOP_NORM_FWD),
    FAMILY("norm_bwd", ORR_MEMOP_NORM_BWD),
    FAMILY("softmax", ORR_MEMOP_SOFTMAX),
    FAMILY("permute", ORR_MEMOP_PERMUTE),
    FAMILY("loss", ORR_MEMOP_LOSS),
    FAMILY("embedding", ORR_MEMOP_EMBEDDING),
    FAMILY("cast", ORR_MEMOP_CAST),
    FAMILY("eager", ORR_MEMOP_EAGER),
    USUALLY(orr_arch_fit, "bulk", memory_frac[ORR_MEMOP_BULK], 1e-3, 10, "0.85",
            "Share of HBM bandwidth reached, whatever the software says."),
    ERROR_OF("memory_error", memory_error_frac),
};
const orr_schema orr_arch_schema = {"architecture fit", ARCH_FIELDS,
                                    sizeof ARCH_FIELDS / sizeof *ARCH_FIELDS, false};

#define ADDS(key, member, text) NUMBER(orr_transfer, key, member, 0, 10, text)
static const orr_field TRANSFER_FIELDS[] = {
    TEXT(orr_transfer, "source", source, "What it was judged on."),
    ADDS("octave", octave_frac, "Error of each octave outside the shapes of a fit."),
    ADDS("start", start_frac, "Error of a launch."),
    NUMBER(orr_transfer, "power", power, 0, 1, "Of efficiency, over watts a flop/s."),
    ADDS("sibling", sibling_frac, "Error by siblings' fits of the same kernel."),
    ADDS("distance", distance_frac, "More, an e-fold between the sheets."),
    ADDS("gemm_stranger", gemm_stranger_frac, "Error by another architecture's fit."),
    ADDS("device", device_frac, "Another device of the architecture."),
    ADDS("architecture", arch_frac, "Another architecture."),
    ADDS("kernel", kernel_frac, "Another library."),
    ADDS("scheme", scheme_frac, "Another numeric scheme."),
    ADDS("direction", direction_frac, "Forward for backward, or the reverse."),
    ADDS("width", width_frac, "Head dimensions that the fit had no rows of."),
    ADDS("mask", mask_frac, "Causal for full attention, or the reverse."),
    ADDS("batch", batch_frac, "Plain products for grouped ones."),
    ADDS("exchange", exchange_frac, "An all-to-all for kernels that send a token once a rank."),
    ADDS("exchange_few", exchange_few_frac, "The same where tokens choose fewer than 4 experts."),
};
const orr_schema orr_transfer_schema = {"transfer", TRANSFER_FIELDS,
                                        sizeof TRANSFER_FIELDS / sizeof *TRANSFER_FIELDS, false};

static const char *const LIKENESS_KINDS[] = {"gemm",   "grouped_gemm", "attention",
                                             "memory", "collective",   NULL};
#define SHARE(key, member, text) NUMBER(orr_likeness_fit, key, likeness.member, 0, 1, text)
#define OCTAVES(key, member, text) NUMBER(orr_likeness_fit, key, likeness.member, 1e-3, 1e3, text)
static const orr_field LIKENESS_FIELDS[] = {
    TEXT(orr_likeness_fit, "source", source, "Tables, and how many devices and shapes."),
    CHOICE(orr_likeness_fit, "kind", kind, LIKENESS_KINDS, "Kind of op."),
    {.name = "rows",
     .type = ORR_FIELD_U32,
     .offset = AT(orr_likeness_fit, rows),
     .doc = "Measurements behind it; 0: those of all kinds."},
    SHARE("level", level, "Of the squared error, common to all shapes."),
    SHARE("smooth", smooth, "Of it, that changes slowly with the shape."),
    OCTAVES("smooth_octaves", smooth_octaves, "Over which it falls to 1/e."),
    SHARE("rough", rough, "Of it, that changes fast."),
    OCTAVES("rough_octaves", rough_octaves, "Over which it falls to 1/e."),
    NUMBER(orr_likeness_fit, "dof", likeness.dof, 0.5, 1e3, "How well the error is known."),
    NUMBER(orr_likeness_fit, "error_model", error_model_frac, 0, 1e3, "Mean, of the model alone."),
    NUMBER(orr_likeness_fit, "error_restored", error_restored_frac, 0, 1e3, "With a few shapes."),
    NUMBER(orr_likeness_fit, "inside_90", inside_90_frac, 0, 1, "Of these, within 90 %."),
};
const orr_schema orr_likeness_schema = {"likeness", LIKENESS_FIELDS,
                                        sizeof LIKENESS_FIELDS / sizeof *LIKENESS_FIELDS, false};

static const orr_field LEFT_OUT_FIELDS[] = {
    TEXT(orr_left_out, "class", class, "Class of kernel table."),
    TEXT(orr_left_out, "device", device, "Catalog name of what was left out."),
    CHOICE(orr_left_out, "arch", arch, ARCHES, "Its architecture."),
    FLAG(orr_left_out, "sibling", sibling, "Another device of it remained."),
    {.name = "rows", .type = ORR_FIELD_U32, .offset = AT(orr_left_out, rows), .doc = "Priced."},
    NUMBER(orr_left_out, "mape", mape_frac, 0, 1e6, "Mean error, training sizes."),
};
const orr_schema orr_left_out_schema = {"device left out", LEFT_OUT_FIELDS,
                                        sizeof LEFT_OUT_FIELDS / sizeof *LEFT_OUT_FIELDS, false};

double *orr_arch_number(orr_arch_fit *arch, const char *name) {
    return orr_schema_number(&orr_arch_schema, arch, name);
}

#define LIST(member, T, record_schema, sheet, ...)                                                 \
    {.class = {__VA_ARGS__},                                                                       \
     .schema = &(record_schema),                                                                   \
     .at = offsetof(orr_calibration, member),                                                      \
     .count_at = offsetof(orr_calibration, member##_count),                                        \
     .record_bytes = sizeof(T),                                                                    \
     .on_sheet = (sheet)}
const orr_fit_list orr_fit_lists[] = {
    LIST(gemm, orr_gemm_fit, GEMM_SCHEMA, true, "gemm"),
    LIST(flash, orr_flash_fit, FLASH_SCHEMA, true, "attention"),
    LIST(stream, orr_stream_fit, STREAM_SCHEMA, true, "memops"),
    LIST(experts, orr_experts_fit, EXPERTS_SCHEMA, true, "grouped_gemm", "moe_fused"),
    LIST(exchange, orr_exchange_fit, EXCHANGE_SCHEMA, true, "ep_alltoall"),
    LIST(collective, orr_collective_fit, COLLECTIVE_SCHEMA, false, "collectives"),
};
_Static_assert(offsetof(orr_gemm_fit, fit) == 0 && offsetof(orr_flash_fit, fit) == 0 &&
                   offsetof(orr_stream_fit, fit) == 0 && offsetof(orr_experts_fit, fit) == 0 &&
                   offsetof(orr_exchange_fit, fit) == 0 && offsetof(orr_collective_fit, fit) == 0,
               "a record begins with its fit");

const orr_fit_list *orr_fit_list_of(const char *class) {
    for (size_t i = 0; i < ORR_FIT_LISTS; i++) {
        const orr_fit_list *list = &orr_fit_lists[i];
        if (strcmp(list->class[0], class) == 0 ||
            (list->class[1] != NULL && strcmp(list->class[1], class) == 0)) {
            return list;
        }
    }
    return NULL;
}
