/* Calibration files: constants of the kernel models with their fit errors and provenance.
 *
 * Four classes of file, each a list of records: `gemm`, `attention` and `collectives` hold fits to
 * measured kernels per device, `architecture` holds what training runs say beyond kernels.
 * The files of data/calibration are built in; `orrery calibrate` makes them. */
#ifndef ORR_COST_CALIBRATION_H
#define ORR_COST_CALIBRATION_H

#include "cost/models.h"
#include "cost/surface.h"
#include "evidence/evidence.h"
#include "orrery/status.h"
#include "orrery/tree.h"
#include "program/program.h"

enum { ORR_MAX_FITS = 512, ORR_MAX_RANK_POINTS = 12 };

/* Where a fit comes from and how far it is off: shared by all records. Errors are one standard
 * deviation, relative, of rows the fit has not seen. */
typedef struct orr_fit {
    const char *device; /* catalog name of the accelerator it was measured on */
    const char *source; /* tables or documents, with their versions */
    uint8_t arch;       /* orr_arch */
    uint8_t assumed;    /* not measured: from documents or by analogy */
    uint32_t rows;      /* measurements behind it */
    double units, peak_flops, hbm_Bps, tdp_w; /* the data sheet it was fitted with */
    /* of the device's sheet; 0: not looked up */
    double fp4_flops; /* tells refreshes of a chip apart */
    double bf16_flops, clock_hz, exp_per_clock;
    double l2_bytes;
    double scale_up_Bps, domain, node; /* links of one accelerator; joined by them; of a host */
    double error_small_frac, error_training_frac;        /* training sizes: docs/kernels.md */
    double mape_all_frac, mape_training_frac, bias_frac; /* of rows left out, for reports */
    const char *surface_text;                            /* as the file holds it; NULL: none */
    const orr_surface *surface;                          /* read from it; NULL: none */
    const char *spread_text, *cover_text;
    const orr_surface *spread; /* ln of a factor on its errors, over shapes; NULL: none */
    orr_cover cover;           /* shapes that it has seen */
} orr_fit;

typedef struct orr_gemm_fit {
    orr_fit fit;
    uint8_t dtype;      /* orr_dtype */
    const char *scheme; /* "bf16", "fp8_dynquant" ...: dtype and scaling as kernel tables say */
    orr_gemm_constants constants;
} orr_gemm_fit;

/* Attention of one library on one device. */
typedef struct orr_flash_fit {
    orr_fit fit;
    const char *kernel; /* "vllm_flash_attn_fa3", "cudnn" ... */
    const char *scheme; /* dtype as kernel tables say */
    uint8_t backward;
    double causal_share; /* of the rows behind it; where the fit knows one mask, 0 or 1 */
    orr_flash_constants constants;
} orr_flash_fit;

/* Expert products, or token exchange, of one library on one device. */
typedef struct orr_experts_fit {
    orr_fit fit;
    const char *kernel, *scheme;
    orr_experts_constants constants;
} orr_experts_fit;
typedef struct orr_exchange_fit {
    orr_fit fit;
    const char *kernel, *scheme; /* scheme: "inside" a node or "across" */
    orr_exchange_constants constants;
} orr_exchange_fit;

/* Memory-bound kernels of one kind on one device. */
typedef struct orr_stream_fit {
    orr_fit fit;
    const char *kernel; /* "fwd:rms_norm" ... */
    orr_stream_constants constants;
} orr_stream_fit;

/* Collectives of one library among so many ranks. Of its fit, no sheet but the links; errors are
 * under and over 1 MB, the surface is over bytes. */
typedef struct orr_collective_fit {
    orr_fit fit;
    const char *library;
    const char *site;         /* name in the tables; NULL: of no table */
    uint8_t op;               /* orr_collective */
    uint8_t topology;         /* orr_topology of the device's links */
    uint32_t ranks, nodes;    /* nodes 1: inside a scale-up domain */
    uint32_t domains;         /* scale-up domains that the ranks lie in */
    double link_Bps, nic_Bps; /* the data sheet's, or the site's */
    orr_message message;      /* its bandwidth is a bus bandwidth */
} orr_collective_fit;

/* What training adds to kernels measured alone, per architecture. */
typedef struct orr_arch_fit {
    const char *source;
    uint8_t arch, assumed;
    double gemm_factor;    /* on the time of a GEMM on a chip that is always hot */
    double gemm_sustained; /* which this adds to, over the throttle that benchmarks show */
    double misaligned;     /* on it, where rows are no multiple of 16 bytes */
    double fp8_efficiency; /* of the FP8 peak, in a tile's main loop */
    double fp4_efficiency;
    double gemm_error_frac; /* left after the factor */
    double grouped_frac;    /* efficiency of a grouped GEMM by that of a batched one */
    double group_s;         /* host and launch per local expert */
    double grouped_error_frac;
    orr_attention_constants attention;
    double attention_error_frac;
    double memory_start_s;               /* a kernel */
    double memory_scale;                 /* on the shares below */
    double memory_frac[ORR_MEMOP_COUNT]; /* of HBM bandwidth, where the software does not say */
    double memory_error_frac;
} orr_arch_fit;

/* What a fit is worth on another device. Errors are one standard deviation, relative. */
typedef struct orr_transfer {
    const char *source;
    double octave_frac; /* each octave outside the shapes that a fit has seen */
    double start_frac;  /* of a launch: how starts differ between fits */
    double power; /* efficiency grows as (watts a flop/s of peak)^power, within an architecture */
    double sibling_frac;       /* error of a kernel by siblings' fits of the same kernel */
    double distance_frac;      /* more, for each e-fold between the data sheets */
    double gemm_stranger_frac; /* of one by another architecture's */
    /* Of other classes; what differs adds up, and the fit with the least is taken. */
    double device_frac, arch_frac, kernel_frac, scheme_frac, direction_frac, mask_frac, width_frac;
    double batch_frac; /* of plain products for grouped ones */
    /* Of an all-to-all's price where kernels send a token once a rank. */
    double exchange_frac, exchange_few_frac;
} orr_transfer;

/* How far measured shapes of a class speak for others; evidence/evidence.h. */
typedef struct orr_likeness_fit {
    const char *source;
    uint8_t kind; /* orr_op_kind */
    uint32_t rows;
    orr_likeness likeness;
    double error_model_frac, error_restored_frac, inside_90_frac; /* of trials not fitted to */
} orr_likeness_fit;

/* How far a device of the kernel tables was off, priced without its own fits; training sizes. */
typedef struct orr_left_out {
    const char *class, *device; /* catalog name */
    uint8_t arch;
    uint8_t sibling; /* of its architecture; for collectives: linked alike */
    uint32_t rows;
    double mape_frac;
} orr_left_out;
enum { ORR_MOST_LEFT_OUT = 128 };

/* A device with fewer measurements of a class than this is priced by assumption: its fits are
 * marked, and their errors are at least ORR_THIN_RELERR (20 % at 90 %). Counted over all files once
 * they are read. */
enum { ORR_THIN_ROWS = 100 };
#define ORR_THIN_RELERR 0.1216

/* Large: lives in an arena. */
typedef struct orr_calibration {
    const orr_tree *devices;    /* map: names in kernel tables to catalog names; NULL: none */
    const orr_tree *libraries;  /* map: a library's usual name to its kernels in tables */
    const orr_tree *operations; /* map: an op's name to what memory-bound kernels are called */
    orr_transfer transfer;      /* zeros when no file says */
    orr_likeness likeness[ORR_EVIDENCE_LAYER]; /* zeros when no file says */
    uint32_t left_out_count;
    orr_left_out left_out[ORR_MOST_LEFT_OUT];
    uint32_t gemm_count, flash_count, stream_count, experts_count, exchange_count, collective_count,
        arch_count;
    orr_gemm_fit gemm[ORR_MAX_FITS];
    orr_flash_fit flash[ORR_MAX_FITS];
    orr_stream_fit stream[ORR_MAX_FITS];
    orr_experts_fit experts[ORR_MAX_FITS];
    orr_exchange_fit exchange[ORR_MAX_FITS];
    orr_collective_fit collective[ORR_MAX_FITS];
    orr_arch_fit arch[ORR_ARCH_COUNT];
} orr_calibration;

/* Adds one parsed file. Errors: unknown class or field, out of range, too many records. */
orr_status orr_calibration_add(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                               orr_err *err);
/* The files of data/calibration that are built into the library: what pricing a step needs. */
orr_status orr_calibration_builtin(orr_arena *arena, orr_calibration **out, orr_err *err);
/* Adds those of its folder kernels, which price tables of measured kernels but no step. */
orr_status orr_calibration_kernels(orr_arena *arena, orr_calibration *into, orr_err *err);

/* All files of a folder laid out as data/calibration, instead of the built-in ones. */
orr_status orr_calibration_folder(orr_arena *arena, const char *folder, orr_calibration **out,
                                  orr_err *err);
/* A copy without the fits of one device, to see what its relatives say of it. */
orr_calibration *orr_calibration_without(orr_arena *arena, const orr_calibration *from,
                                         const char *device);
/* Whether any fit is of another device of the accelerator's architecture, by class of kernel table
 * ("gemm", "collectives" ...). */
bool orr_calibration_has_sibling(orr_arena *arena, const orr_calibration *calibration,
                                 const char *class, const orr_accelerator *accelerator);

/* How sure a fit is of a shape, one sd: by its place, and its distance from all that was seen. */
double orr_fit_error(const orr_fit *fit, const orr_transfer *transfer, const double *place,
                     bool training);
/* The same of a collective's message. */
double orr_message_error(const orr_fit *fit, const orr_transfer *transfer, double bytes);
/* How unlike two architectures are: 0 the same, below 100 neighbours of a vendor... */
double orr_arch_distance(const orr_accelerator *accelerator, uint8_t arch);
/* How far a fit's data sheet is from the accelerator's, in log ratios; none from the one that it
 * starts from, so that moving a figure changes no fit. */
double orr_sheet_distance(const orr_accelerator *accelerator, const orr_fit *fit);
/* What another device adds to a fit's error, one sd; 0 for its own. */
double orr_device_apart(const orr_transfer *transfer, const orr_accelerator *accelerator,
                        const orr_fit *fit);

/* An accelerator by its name in kernel tables or in the catalog; NULL when unknown. */
orr_accelerator *orr_calibration_device(orr_arena *arena, const orr_calibration *calibration,
                                        const char *name);
/* The same without its maker's name ("NVIDIA H200 NVL") and, of a system, without what it is built
 * of besides ("GB300 NVL72 2 racks"). */
orr_accelerator *orr_calibration_system(orr_arena *arena, const orr_calibration *calibration,
                                        const char *name, bool of_parts);
/* What a kernel of a numeric scheme runs on. A sheet without a figure for 4 bits is taken to do
 * twice its 8-bit rate. */
orr_machine orr_scheme_machine(const orr_accelerator *accelerator, const char *scheme,
                               orr_dtype dtype);
/* The dtype behind a numeric scheme of kernel tables ("fp8_dynquant", "mxfp4"). */
bool orr_scheme_dtype(const char *scheme, orr_dtype *out);

/* The fit of a device, or of the nearest of its architecture, or of the vendor's newest: *kin says
 * how near. NULL only when the calibration is empty. */
typedef enum orr_kin {
    ORR_KIN_SAME = 0, /* this device */
    ORR_KIN_ARCH = 1, /* another device of the architecture */
    ORR_KIN_OTHER = 2 /* another architecture: assumed */
} orr_kin;
const orr_gemm_fit *orr_calibration_gemm(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, const char *scheme,
                                         orr_kin *kin);
/* A fit's constants for an accelerator other than its own: operand bandwidth moves with a unit's
 * arithmetic; a relative with more power for it throttles less (GB300 by GB200).
 * Boards with less power are left as they are: runs on 500 W H100s show no more throttle. */
orr_gemm_constants orr_gemm_transfer(const orr_gemm_fit *fit, const orr_accelerator *accelerator);

/* The fits that speak for a device: its own alone, or, each as far as its sheet is near, those of
 * all its siblings, or one of another architecture. A price is the weighted geometric mean of what
 * they say, each with the part of its surface that carries over. */
enum { ORR_MOST_RELATIVES = 6 };
typedef struct orr_relatives {
    uint32_t count;
    uint8_t kin;       /* orr_kin of the nearest */
    double apart_frac; /* one sd, to add to their own errors */
    struct {
        uint32_t index;      /* into the calibration's fits of the class */
        double weight;       /* they sum to 1 */
        double surface_frac; /* 1: the device's own */
    } of[ORR_MOST_RELATIVES];
} orr_relatives;
void orr_relatives_gemm(const orr_calibration *calibration, const orr_accelerator *accelerator,
                        const char *scheme, orr_relatives *out);
void orr_relatives_flash(const orr_calibration *calibration, const orr_accelerator *accelerator,
                         const char *kernel, const char *scheme, const orr_attention_shape *shape,
                         orr_relatives *out);
/* As orr_gemm_transfer, for kernels alone: efficiency moves with the power that a flop/s has, the
 * speed of feeding units with their bf16 arithmetic, softmax with their exponentials. */
orr_gemm_constants orr_gemm_borrow(const orr_transfer *transfer, const orr_gemm_fit *fit,
                                   const orr_accelerator *accelerator);
orr_flash_constants orr_flash_borrow(const orr_transfer *transfer, const orr_flash_fit *fit,
                                     const orr_accelerator *accelerator);
/* Fits of a kernel in one list ("moe_fused", "ep_alltoall", "memops"): of the device, library and
 * scheme, or what differs least. scheme NULL: the list knows none. */
void orr_relatives_kernel(const orr_calibration *calibration, const orr_accelerator *accelerator,
                          const char *class, const char *kernel, const char *scheme,
                          orr_relatives *out);
orr_experts_constants orr_experts_borrow(const orr_transfer *transfer, const orr_experts_fit *fit,
                                         const orr_accelerator *accelerator, double peak_flops);
const orr_arch_fit *orr_calibration_arch(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, orr_kin *kin);
/* Fits of one operation inside a domain by any NCCL or RCCL, by rank count; returns how many. Of
 * several of one rank count the last in the file. */
uint32_t orr_calibration_collective(const orr_calibration *calibration,
                                    const orr_accelerator *accelerator, orr_collective op,
                                    const orr_collective_fit *out[ORR_MAX_RANK_POINTS],
                                    orr_kin *kin);

/* A number of an architecture by its name in the file, for fitting; NULL when there is none. */
double *orr_arch_number(orr_arch_fit *arch, const char *name);

/* Bus traffic by the bytes of orr_collective: 2(n-1)/n, (n-1)/n or 1. */
double orr_bus_factor(orr_collective kind, double ranks);
const char *orr_collective_name(orr_collective op);
/* The first words are the same: "NCCL 2.28.9" and "NCCL 2.29.2". */
bool orr_same_library(const char *a, const char *b);
/* Scale-up domains that so many ranks on so many hosts lie in. */
double orr_collective_domains(const orr_accelerator *accelerator, double ranks, double nodes);
/* Most bus bandwidth that NICs and links leave a collective, at line rate. */
double orr_across_bus_Bps(orr_collective op, double ranks, double domains, double nic_Bps,
                          double link_Bps);

#endif
