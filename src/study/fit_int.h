/* A fit of profiles, architectures and fabrics to runs, between its files. */
#ifndef ORR_STUDY_FIT_INT_H
#define ORR_STUDY_FIT_INT_H

#include "cost/calibration.h"
#include "study/study_int.h"

enum { ORR_FIT_MAX_PARAMETERS = 32, ORR_FIT_MAX_PROFILES = 64, ORR_FIT_MAX_FABRICS = 32 };

typedef struct orr_fit_parameter {
    const char *file, *field; /* "software/nanotron.yaml", "fabrics/efa.yaml", an architecture */
    double low, high, start, value;
    uint32_t target_count;
    double *target[ORR_FIT_MAX_PROFILES]; /* members to set, in profiles or the calibration */
} orr_fit_parameter;

typedef struct orr_fitting {
    orr_arena *arena;
    orr_calibration *calibration; /* mutable */
    struct {
        const char *name;
        orr_software *profile; /* mutable */
    } profile[ORR_FIT_MAX_PROFILES];
    struct {
        const char *name;
        orr_fabric *fabric; /* mutable */
    } fabric[ORR_FIT_MAX_FABRICS];
    uint32_t profile_count, fabric_count, row_count, parameter_count;
    orr_judged **row; /* of this stage */
    const bool *held; /* rows that no stage sees; NULL: none */
    orr_fit_parameter *parameter;
    orr_status status;
    orr_err *err;
} orr_fitting;

/* Projects the chosen rows with the numbers as they stand. */
orr_status orr_fit_project(orr_fitting *f);
/* Runs the stages that a request names, in order; appends to list. */
orr_status orr_fit_stages(orr_fitting *f, const orr_tree *stages, const orr_study_request *request,
                          orr_judged *rows, uint32_t count, orr_tree *list, orr_err *err);
/* Errors on series that the fit has not seen, and of profiles whose free numbers are defaulted:
 * puts left_out.{series, profiles} into map. */
orr_status orr_fit_check(orr_fitting *f, const orr_tree *stages, const orr_study_request *request,
                         orr_judged *rows, uint32_t count, orr_tree *map, orr_err *err);

#endif
