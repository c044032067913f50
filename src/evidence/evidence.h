/* Evidence: what was measured, by whom, on what, under which software.
 *
 * A record is one time: of a kernel, a layer, a collective or a whole step, with its shape. A file
 * of records is the tool's own JSON, the same as CSV, or one of the public tables of kernels by
 * their columns (gzip too); docs/evidence.md describes them. Records of another device or another
 * software stack are refused unless the caller says otherwise. Lookup is exact, or between shapes
 * with an error estimate. */
#ifndef ORR_EVIDENCE_H
#define ORR_EVIDENCE_H

#include "program/program.h"

enum {
    ORR_EVIDENCE_DIMS = 16,
    ORR_EVIDENCE_MAX_FILES = 32,
    ORR_EVIDENCE_MAX_RECORDS = 1 << 20,
    ORR_EVIDENCE_ANY = 255 /* phase: whichever */
};

/* The first five are orr_op_kind. */
typedef enum orr_evidence_kind {
    ORR_EVIDENCE_LAYER = ORR_OP_COLLECTIVE + 1,
    ORR_EVIDENCE_UNIT,
    ORR_EVIDENCE_KIND_COUNT
} orr_evidence_kind;

/* What a time is of. Zero-padded: its bytes are compared. dim by kind:
 *   GEMM, grouped   m n k batch, as in orr_op
 *   attention       batch heads kv_heads head_dim v_dim window seq_q seq_kv
 *   memory          bytes kernels
 *   collective      rank bytes, ranks, scale-up domains
 *   layer           hidden heads kv_heads head_dim v_dim ffn experts topk expert_ffn shared_ffn seq
 *                   mbs tp cp ep sp; whole-model widths, phase input_grad stands for the backward
 *   unit            bytes of its gather, as the collective's; what the framework does on the host
 *                   around one unit of sharded parameters, beside gather, scatter and kernels
 */
typedef struct orr_evidence_key {
    uint8_t kind;      /* orr_op_kind, orr_evidence_kind */
    uint8_t phase;     /* orr_phase, ORR_EVIDENCE_ANY; 0 for memory and collectives */
    uint8_t dtype;     /* orr_dtype; 0 for collectives and memory: bytes are counted */
    uint8_t sub;       /* orr_memop or orr_collective */
    uint8_t causal;    /* attention */
    uint8_t out_bytes; /* GEMM: see orr_op; 0: not stated */
    uint8_t reserved[2];
    uint64_t dim[ORR_EVIDENCE_DIMS];
} orr_evidence_key;

typedef struct orr_evidence_record {
    orr_evidence_key key;
    double time_s;
    double spread_frac; /* of repetitions, one standard deviation, relative; 0: not stated */
    uint32_t samples;   /* measurements behind it */
    uint32_t file;      /* index into the set's files */
    bool foreign;       /* of another device or software than wanted, taken because told */
    const char *device, *software; /* as stated for it; NULL or "": not stated */
} orr_evidence_record;

/* A measured step of a whole plan. */
typedef struct orr_evidence_step {
    const orr_tree *plan; /* keys as for the command line */
    double time_s;
    uint32_t gpus;
    uint32_t file;
} orr_evidence_step;

typedef struct orr_evidence_file {
    const char *path;
    const char *device;   /* as the file writes it */
    const char *detail;   /* of the device: form, driver, clocks; "" when not stated */
    const char *software; /* profile or stack; "" when not stated */
    const char *source, *date;
    uint32_t records;        /* taken */
    uint32_t other_device;   /* left out: measured on another device */
    uint32_t other_software; /* left out: measured under other software */
    uint32_t superseded;     /* left out: another device or software says of the same shape */
    uint32_t not_understood; /* left out: an op or dtype that plans do not have */
    uint32_t missing;        /* what the measuring itself could not get */
    const orr_tree *gaps;    /* list of {what, why} of these */
    bool foreign;            /* of another device or software, taken because told */
} orr_evidence_file;

typedef struct orr_evidence {
    const char *device; /* catalog name of the accelerator that it is for */
    uint32_t file_count, count, step_count;
    orr_evidence_file file[ORR_EVIDENCE_MAX_FILES];
    const orr_evidence_record *record; /* [count], distinct keys, sorted by their bytes */
    const orr_evidence_step *step;
    uint64_t hash; /* of all records */
    uint32_t slots;
    const uint32_t *slot; /* [slots] record index + 1 by hash of its key */
} orr_evidence;

/* Whose evidence is wanted. */
typedef enum orr_evidence_accept {
    ORR_ACCEPT_DEVICE = 1 << 0,   /* of any device */
    ORR_ACCEPT_SOFTWARE = 1 << 1, /* of any software */
} orr_evidence_accept;
typedef enum orr_evidence_class {
    ORR_CLASS_BIT_KERNEL = 1 << 0,
    ORR_CLASS_BIT_LAYER = 1 << 1,
    ORR_CLASS_BIT_COLLECTIVE = 1 << 2,
    ORR_CLASS_BIT_STEP = 1 << 3,
    ORR_CLASS_BIT_ALL = 15
} orr_evidence_class;
typedef struct orr_evidence_want {
    const orr_accelerator *device; /* NULL: that of the first record */
    const char *software;          /* NULL: any */
    uint32_t accept;               /* orr_evidence_accept bits */
    uint32_t classes;              /* orr_evidence_class bits */
} orr_evidence_want;

/* Reads one or more files, separated by commas, into one set. Equal keys of one device and software
 * become one record: the median, with the spread between them. Of several, the wanted one counts,
 * then one that states its software, then that of the first file. Errors: unreadable, unknown
 * field, wrong type, a content hash that does not match; nothing left for this device or software
 * (ORR_E_CONFLICT). */
orr_status orr_evidence_read(orr_arena *arena, const char *paths, const orr_evidence_want *want,
                             orr_evidence **out, orr_err *err);
/* One parsed file; `name` stands in messages. */
orr_status orr_evidence_parse(orr_arena *arena, const char *name, const char *text, size_t length,
                              const orr_evidence_want *want, orr_evidence **out, orr_err *err);

/* The key of an op; false for one that no evidence describes. */
bool orr_evidence_key_of(const orr_op *op, orr_evidence_key *key);
/* The key of a kernel or collective that a map describes with the fields of a record, time apart.
 */
orr_status orr_evidence_key_read(orr_arena *arena, const orr_tree *map, orr_evidence_key *key,
                                 orr_err *err);
/* The op that a kernel's key stands for, for pricing it with a model. */
void orr_evidence_op_of(const orr_evidence_key *key, orr_op *op);
/* The key of a layer as a whole, forward or backward (ORR_PHASE_INPUT_GRAD). */
void orr_evidence_key_of_layer(const orr_object_key *layer, orr_phase phase, orr_evidence_key *key);

/* What the host spends on a sharded unit whose gather has that many bytes: the record of the unit
 * nearest in size, the smaller of two; NULL when none. Phase forward or input_grad (backward). */
const orr_evidence_record *orr_evidence_unit(const orr_evidence *evidence, orr_phase phase,
                                             double gather_bytes);

/* The record of a key, or of one that does not state phase or output bytes; NULL when none. */
const orr_evidence_record *orr_evidence_find(const orr_evidence *evidence,
                                             const orr_evidence_key *key);

/* How alike a model's errors are at two shapes of a class, by the octaves d between them: level +
 * smooth exp(-d / smooth_octaves) + rough exp(-d / rough_octaves), as shares of the squared error
 * that it states; what is left of 1 is each shape's own. dof: how well that error is known, as the
 * degrees of freedom of a Student t. All zero: records say nothing of other shapes. */
typedef struct orr_likeness {
    double level, smooth, smooth_octaves, rough, rough_octaves, dof;
} orr_likeness;
/* What the model says of a record; time_s 0: nothing. */
typedef struct orr_modelled {
    double time_s, relerr_frac;
} orr_modelled;

enum { ORR_EVIDENCE_NEIGHBOURS = 16 }; /* records that are asked of a shape */
#define ORR_EVIDENCE_NEAR_OCTAVES 2.5  /* what counts as near, in words */
#define ORR_EVIDENCE_NOISE 0.03        /* two runs of one kernel differ by that; one sd */

/* Octaves between two keys over the sizes that may differ; negative when others do. */
double orr_evidence_octaves(const orr_evidence_key *a, const orr_evidence_key *b);
/* A set laid out for questions about shapes that it does not hold. model: [evidence->count],
 * likeness: [ORR_EVIDENCE_LAYER]; the last must outlive it. */
typedef struct orr_evidence_field orr_evidence_field;
const orr_evidence_field *orr_evidence_field_new(orr_arena *arena, const orr_evidence *evidence,
                                                 const orr_modelled *model,
                                                 const orr_likeness *likeness);
/* What records say of a shape whose price the model states with that error. */
typedef struct orr_evidence_near {
    double ratio;        /* multiplies the model's time */
    double relerr_frac;  /* one standard deviation; the model's where records say nothing */
    double octaves;      /* distance to the nearest record */
    double record_ratio; /* measured by modelled time of that record */
    uint32_t records;    /* asked; 0: none of this class and format */
    uint32_t neighbours; /* of them, within ORR_EVIDENCE_NEAR_OCTAVES */
    bool inside;         /* between neighbours in every size */
} orr_evidence_near;
orr_evidence_near orr_evidence_between(const orr_evidence_field *field, const orr_evidence_key *key,
                                       double relerr_frac);
/* The arithmetic behind it, in units of the model's error: off [count] at records so many octaves
 * apart, between [count][count], and to [count] from the shape asked about. */
typedef struct orr_kriged {
    double mean;
    double open;  /* share of the squared error that is left */
    double scale; /* what the records make of the stated error, squared */
} orr_kriged;
orr_kriged orr_evidence_krige(const orr_likeness *likeness, uint32_t count, const double *between,
                              const double *to, const double *off, const double *noise);

/* A file in the tool's own format, with identity and content hash. gaps may be NULL. */
typedef struct orr_evidence_identity {
    const char *device, *device_detail, *software, *stack, *source, *date;
    const orr_tree *gaps; /* list of {what, why}: what could not be measured */
} orr_evidence_identity;
orr_tree *orr_evidence_write(orr_arena *arena, const orr_evidence *evidence,
                             const orr_evidence_identity *identity);
/* The same as an SQLite database: a table "header" and a table "evidence", JSON in both. The bytes
 * lie in the arena. */
orr_status orr_evidence_write_sqlite(orr_arena *arena, const orr_tree *evidence, void **bytes,
                                     size_t *length, orr_err *err);
orr_tree *orr_evidence_write_record(orr_arena *arena, const orr_evidence_record *record,
                                    const char *name);
/* The content hash of a file: "identity:" and 16 hexadecimal digits over the device's name, the
 * software and the records as they stand. Files of before this have "xxh3:", over the records. */
const char *orr_evidence_hash(orr_arena *arena, const char *device, const char *software,
                              const orr_tree *records);
/* A set as a summary: files, what was taken and left out, records by kind. */
orr_tree *orr_evidence_describe(orr_arena *arena, const orr_evidence *evidence);
const char *orr_evidence_kind_name(uint8_t kind);
/* Names of the sizes in a key of a kind, as its dim; NULL after the last. */
const char *orr_evidence_size(uint8_t kind, uint32_t index);
/* "m=4096 n=8192 k=8192", for people. */
const char *orr_evidence_shape_text(orr_arena *arena, const orr_evidence_key *key);

#endif
