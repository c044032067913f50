/* Inside the module: what the measuring child does and what it sends. */
#ifndef ORR_ENGINE_INT_H
#define ORR_ENGINE_INT_H

#include "engine/engine.h"

typedef enum orr_note_kind {
    ORR_NOTE_IDENTITY = 0,
    ORR_NOTE_BEGIN,   /* text: what starts now, for the message when it never ends */
    ORR_NOTE_RECORD,  /* record; index tells repeated reports of one apart */
    ORR_NOTE_GAP,     /* text: what, why */
    ORR_NOTE_STEP,    /* record.time_s: one sample of the whole step */
    ORR_NOTE_CHECK,   /* text, value */
    ORR_NOTE_HARNESS, /* value: share of the time; index: readings; record.samples: runs */
    ORR_NOTE_OWN,     /* value: share of the time on the processor */
    ORR_NOTE_DONE
} orr_note_kind;
/* One message from the child. */
typedef struct orr_note {
    uint32_t kind, index;
    double value;
    orr_evidence_record record;
    orr_backend_identity identity;
    char what[160], why[320];
} orr_note;

typedef struct orr_measurer {
    const orr_measure_request *request;
    const orr_backend *backend;
    void *self;
    orr_backend_identity identity;
    orr_arena *arena;
    orr_linker *linker;
    int channel;
    uint32_t next_index;
    uint32_t runs, readings; /* of ops, and of the clock for them */
    orr_backend_message message;
} orr_measurer;

void orr_note_begin(const orr_measurer *m, const char *what);
void orr_note_gap(const orr_measurer *m, const char *what, const char *why);

/* An op of a program as a back end takes it; bytes of eager norms by the software. */
orr_backend_op orr_backend_op_of(const orr_cluster *cluster, const orr_op *op);
/* "ran out of memory" ...: a sentence for a status that is not OK. */
const char *orr_backend_reason(int status, const orr_backend_message *message);
bool orr_backend_fatal(int status);

/* Each returns an orr_backend_status; what only spoils one op is a gap and OK. */
int orr_measure_kernels(orr_measurer *m, const orr_work *work);
int orr_measure_sweep(orr_measurer *m, const orr_work *work);
int orr_measure_step(orr_measurer *m);
int orr_measure_checks(orr_measurer *m);

double orr_sample_median(double *sample, uint32_t count); /* sorts */

#endif
