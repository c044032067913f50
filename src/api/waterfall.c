/* Where the peak goes, as part of a projection. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/os_file.h"
#include "orrery/report.h"

orr_status orr_job_put_waterfall(orr_job *job, const orr_projection *projection, orr_err *err) {
    orr_waterfall waterfall;
    ORR_TRY(orr_project_waterfall(job->ctx->engine, job->arena, projection, &waterfall, err));
    (void)orr_tree_put(job->arena, job->result, "waterfall",
                       orr_waterfall_write(job->arena, projection, &waterfall));
    const char *path = orr_tree_text(orr_tree_get(job->args, "svg"), NULL);
    if (path == NULL) {
        return ORR_OK;
    }
    const char *text = orr_report_waterfall(job->arena, job->result);
    return orr_os_write_file(path, text, strlen(text), err);
}
