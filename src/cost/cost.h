/* Prices: how long an op takes on a device, how sure that is and where the figure comes from.
 *
 * Kernel models are closed forms with constants per architecture, read from data/calibration (with
 * their fit errors); collectives are algorithms apart from the policies that choose them. Nothing
 * here knows models or plans beyond the op it prices. docs/internals/cost.md. */
#ifndef ORR_COST_H
#define ORR_COST_H

#include "cluster/cluster.h"
#include "evidence/evidence.h"
#include "program/program.h"
#include "program/unfused.h"
#include "software/software.h"

typedef enum orr_provenance {
    ORR_FROM_MEASURED = 0,
    ORR_FROM_RESTORED, /* composed from measurements at another scale */
    ORR_FROM_MODEL,    /* calibrated on measurements of this architecture */
    ORR_FROM_ASSUMPTION,
    ORR_PROVENANCE_COUNT
} orr_provenance;

typedef struct orr_cost {
    double time_s;
    double relerr_frac; /* one standard deviation, relative */
    uint8_t provenance; /* orr_provenance */
} orr_cost;

/* A price list: one accelerator in one cluster under one software profile. Immutable. */
typedef struct orr_prices_table orr_cost_table;

orr_status orr_cost_table_new(orr_arena *arena, const orr_cluster *cluster,
                              const orr_software *software, const orr_cost_table **out,
                              orr_err *err);
/* The same with constants other than the built-in ones; they must outlive the table. */
struct orr_calibration;
orr_status orr_cost_table_of(orr_arena *arena, const struct orr_calibration *calibration,
                             const orr_cluster *cluster, const orr_software *software,
                             const orr_cost_table **out, orr_err *err);
/* A table with measurements before its models; the set must outlive it. */
const orr_cost_table *orr_cost_table_measured(orr_arena *arena, const orr_cost_table *base,
                                              const orr_evidence *evidence);
/* What the models alone say of a record, as it was measured: alone, where it names no software.
 * Collectives by the table's own constants. time_s 0: nothing. */
orr_modelled orr_cost_model_of(const orr_cost_table *table, const orr_evidence *evidence,
                               const orr_evidence_record *record);
const orr_evidence *orr_cost_table_evidence(const orr_cost_table *table); /* NULL: none */
/* One op, alone on the device. */
orr_cost orr_cost_op(const orr_cost_table *table, const orr_op *op);
/* One collective of a group; rank_bytes as in orr_collective. */
orr_cost orr_cost_collective(const orr_cost_table *table, orr_collective kind, double rank_bytes,
                             orr_group group);
/* Memory traffic of a family, `kernels` launches. */
orr_cost orr_cost_memory(const orr_cost_table *table, orr_memop family, double bytes,
                         uint32_t kernels);

/* Muon on one matrix of a rank: program/muon.h. */
typedef struct orr_muon_cost {
    orr_cost all;
    double product_s[3]; /* X X^T, A A, B X: of all iterations */
    double elementwise_s, flops;
} orr_muon_cost;
orr_muon_cost orr_cost_muon(const orr_cost_table *table, uint64_t rows, uint64_t cols);
/* The same of so many matrices with reasons, as orr_cost_op_write, and `products`. */
orr_tree *orr_cost_muon_write(orr_arena *arena, const orr_cost_table *table, uint64_t rows,
                              uint64_t cols, double matrices);

/* Attention of several kernels with reasons: as orr_cost_op_write, and `products`. */
orr_tree *orr_cost_unfused_write(orr_arena *arena, const orr_cost_table *table,
                                 const orr_unfused *core, orr_dtype dtype, bool backward);

/* The data sheet's peak for a format, or for the one that the device falls back to, and how many
 * times longer products take at the clock that training sustains. */
double orr_cost_peak_flops(const orr_cost_table *table, orr_dtype dtype);
double orr_cost_sustained(const orr_cost_table *table, orr_dtype dtype);

/* Where a price comes from. */
typedef enum orr_cost_how {
    ORR_BY_MODEL = 0,
    ORR_BY_FAR,     /* the model, moved by what measured shapes far away say of the machine */
    ORR_BY_NEAR,    /* near one measured shape, or beside several */
    ORR_BY_BETWEEN, /* between measured shapes in every size */
    ORR_BY_EXACT,
    ORR_HOW_COUNT
} orr_cost_how;
const char *orr_cost_how_name(orr_cost_how how); /* "model", "far", "near", "between", "exact" */
typedef struct orr_measured {
    orr_cost cost;
    double model_s, model_relerr_frac; /* what the model alone says */
    uint8_t how;                       /* orr_cost_how */
    const orr_evidence_record *record; /* of an exact match */
    double octaves;                    /* to the nearest record */
    double record_ratio;               /* what that record says of the model; 1: exact or none */
    uint32_t near;                     /* records within ORR_EVIDENCE_NEAR_OCTAVES */
} orr_measured;
orr_measured orr_cost_explain(const orr_cost_table *table, const orr_op *op);
/* The key by which an op's evidence is found: bytes as priced, groups as the cluster places them;
 * false when it has none. */
bool orr_cost_key(const orr_cost_table *table, const orr_op *op, orr_evidence_key *key);

/* The price of an op with its reasons (`orrery cost`): {op, hardware, time_s, relerr, interval_90,
 * provenance, evidence, roof, cut, at_once, besides, fit, benchmark}; what a kind does not have is
 * left out. ask NULL: nothing more. */
typedef struct orr_cost_ask {
    const double *length;  /* of packed sequences of attention, which the op has the longest of */
    uint32_t lengths;      /* 0: as the op says */
    const char *library;   /* whose kernel a benchmark runs; NULL: the usual one */
    const char *operation; /* of a memory-bound op: "norm_fwd" ... */
    double rows, bytes;    /* of it, as a benchmark counts them: every tensor once */
} orr_cost_ask;
orr_status orr_cost_op_write(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                             const orr_cost_ask *ask, orr_tree **out, orr_err *err);

/* Adds `benchmark` to such a price: a dispatch and its combine together as a table of exchanges
 * measured them (DeepEP), with so many units (SMs) given to its kernel; nothing where no table
 * says. */
typedef struct orr_exchange_ask {
    orr_routing routing;
    uint32_t ranks, stride, units;
    double tokens, hidden, imbalance;
} orr_exchange_ask;
orr_status orr_cost_exchange_write(orr_arena *arena, const orr_cost_table *table,
                                   const orr_exchange_ask *ask, orr_tree *into, orr_err *err);

/* What prices of this accelerator rest on beside its own measurements: a list of {what, how,
 * from, left_out:{devices, least, most}, message}; empty where all is its own. left_out: how far
 * devices of the tables are off when they are priced the same way. */
orr_tree *orr_cost_reliance(orr_arena *arena, const orr_cost_table *table);

/* All ops of an object priced. */
typedef struct orr_priced {
    const orr_object *object;
    const orr_cost *op; /* [object->op_count] */
} orr_priced;
void orr_cost_price(const orr_cost_table *table, orr_arena *arena, const orr_object *object,
                    orr_priced *out);

/* Prices the rows of a table of measured kernels (CSV, gzip too; the columns of data/kernels) as
 * benchmarks run them, not as training does, and compares: {summary, by: {device, dtype,
 * device_dtype, size}, class, unpriced: [{device, dtype, count}]} (`validate --kernels`). class
 * NULL: told from the columns. */
typedef struct orr_kernels_request {
    const char *path, *class;
    const char *calibration; /* a folder laid out as data/calibration; NULL: the built-in one */
    bool leave_out;          /* each device priced without its own fits; by.device then says
                              * `sibling`: whether another of its architecture has any */
} orr_kernels_request;
orr_status orr_cost_kernels_validate(orr_arena *arena, const orr_kernels_request *request,
                                     orr_tree **out, orr_err *err);

/* The rows of such a table as CSV text with predicted_us, low_us and high_us (90 %) added, empty
 * where there is no model; measured times are not needed. *summary: {class, rows, priced, unpriced:
 * [{line, why}], the first few; reasons: [{why, rows}], of all}. */
orr_status orr_cost_kernels_batch(orr_arena *arena, const char *path, const char *class, char **csv,
                                  orr_tree **summary, orr_err *err);

#endif
