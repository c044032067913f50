/* Out-of-memory messages of PyTorch, old and new, CUDA and HIP:
 *
 *   CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of
 * which 1.25 GiB is free. [Including non-PyTorch memory, this] Process [N] has 77.89 GiB memory in
 * use. Of the allocated memory 70.12 GiB is allocated by PyTorch, and 5.34 GiB is reserved by
 * PyTorch but unallocated. CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total
 * capacity; 77.10 GiB already allocated; 12.31 MiB free; 77.50 GiB reserved in total by PyTorch) */
#include <string.h>

#include "observe/observe_int.h"

/* The number that ends just before `words`, as in "77.10 GiB already allocated"; 0: none. */
static double bytes_before(const char *text, const char *words) {
    const char *at = strstr(text, words);
    if (at == NULL) {
        return 0;
    }
    const char *start = at; /* back over "77.10 GiB " */
    while (start > text && strchr(" KMGTiB", start[-1]) != NULL) {
        start--;
    }
    while (start > text && strchr("0123456789.", start[-1]) != NULL) {
        start--;
    }
    double value;
    const char *end;
    return orr_scan_number(start, &value, &end) ? orr_scan_bytes(end, value, 1) : 0;
}

static double bytes_after(const char *text, const char *words) {
    double value;
    const char *end = orr_scan_after(text, words, &value);
    return end != NULL ? orr_scan_bytes(end, value, 1) : 0;
}

bool orr_log_oom(const char *line, int64_t rank, orr_run_log *log) {
    const char *text = strstr(line, "out of memory");
    bool ours = text != NULL && (strstr(text, "ried to allocate") != NULL);
    if (!ours) {
        return false;
    }
    if (log->oom_count++ > 0) {
        return true;
    }
    log->oom_rank = rank;
    log->oom_tried_bytes = bytes_after(text, "ried to allocate");
    log->oom_capacity_bytes = bytes_after(text, "total capacity of");
    if (log->oom_capacity_bytes > 0) {
        double idle = bytes_before(text, " is reserved by PyTorch but unallocated");
        log->oom_free_bytes = bytes_before(text, " is free");
        log->oom_process_bytes = bytes_before(text, " memory in use");
        log->oom_allocated_bytes = bytes_before(text, " is allocated by PyTorch");
        log->oom_reserved_bytes = log->oom_allocated_bytes + idle;
    } else {
        log->oom_capacity_bytes = bytes_before(text, " total capacity");
        log->oom_allocated_bytes = bytes_before(text, " already allocated");
        log->oom_free_bytes = bytes_before(text, " free;");
        log->oom_reserved_bytes = bytes_before(text, " reserved in total by PyTorch");
    }
    return true;
}
