/* Telling files apart. */
#include <string.h>

#include "base/err.h"
#include "observe/observe_int.h"

static bool ends_with(const char *text, const char *tail) {
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

/* Names of configurations are never logs, whatever they quote. */
static bool is_configuration(const char *name, const char *head, size_t length) {
    static const char *const endings[] = {".sh",  ".bash", ".slurm", ".sbatch", ".yaml",
                                          ".yml", ".json", ".toml",  ".py"};
    for (size_t i = 0; name != NULL && i < sizeof endings / sizeof *endings; i++) {
        if (ends_with(name, endings[i])) {
            return true;
        }
    }
    return length >= 2 && memcmp(head, "#!", 2) == 0;
}

/* The list of events may come after much else, but the profiler's own keys come first. */
static bool is_kineto(const char *head, size_t length) {
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", head[at]) != NULL) {
        at++;
    }
    return at < length && head[at] == '{' &&
           (orr_holds(head, length, "\"traceEvents\"") ||
            orr_holds(head, length, "\"deviceProperties\""));
}

static bool is_database(const char *head, size_t length) {
    static const char magic[] = "SQLite format 3";
    return length >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

static orr_status observe(orr_arena *arena, const char *name, orr_stream *stream,
                          orr_observation *out, orr_err *err) {
    const char *head;
    size_t length;
    ORR_TRY(orr_stream_peek(stream, &head, &length, err));
    if (length >= 2 && (uint8_t)head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) {
        return orr_observe_snapshot(arena, stream, out, err);
    }
    if (is_kineto(head, length)) {
        return orr_observe_kineto(arena, stream, out, err);
    }
    if (is_configuration(name, head, length)) {
        return ORR_OK;
    }
    if (orr_holds(head, length, "<system") && orr_holds(head, length, "<gpu")) {
        return orr_observe_xml(arena, name, stream, out, err);
    }
    if (orr_holds(head, length, "GPU0") && orr_holds(head, length, "CPU Affinity")) {
        return orr_observe_topo(arena, name, stream, out, err);
    }
    if (orr_holds(head, length, "Link Type between two GPUs")) {
        return orr_observe_rocm(arena, name, stream, out, err);
    }
    if (orr_holds(head, length, "algbw") && orr_holds(head, length, "busbw")) {
        return orr_observe_collectives(arena, name, stream, out, err);
    }
    return orr_observe_log(arena, stream, out, err);
}

/* Failures of readers, which know no name, get the file's. */
static orr_status named(orr_status status, const char *path, orr_err *err) {
    if (status != ORR_OK && err != NULL && err->file[0] == '\0' && path != NULL) {
        size_t length = strlen(path);
        length = length < sizeof err->file - 1 ? length : sizeof err->file - 1;
        memcpy(err->file, path, length);
        err->file[length] = '\0';
    }
    return status;
}

orr_status orr_observe_file(orr_arena *arena, const char *path, orr_observation *out,
                            orr_err *err) {
    orr_stream *stream;
    const char *head;
    size_t length;
    *out = (orr_observation){.warnings = orr_tree_new_list(arena)};
    ORR_TRY(orr_stream_open(arena, path, &stream, err));
    orr_status status = orr_stream_peek(stream, &head, &length, err);
    if (status == ORR_OK) {
        status = is_database(head, length) ? orr_observe_nsys(arena, path, NULL, 0, out, err)
                                           : observe(arena, path, stream, out, err);
    }
    orr_stream_close(stream);
    return named(status, path, err);
}

orr_status orr_observe_bytes(orr_arena *arena, const char *name, const char *bytes, size_t length,
                             orr_observation *out, orr_err *err) {
    *out = (orr_observation){.warnings = orr_tree_new_list(arena)};
    if (is_database(bytes, length)) {
        return named(orr_observe_nsys(arena, NULL, bytes, length, out, err), name, err);
    }
    orr_stream *stream = orr_stream_of(arena, bytes, length);
    orr_status status = observe(arena, name, stream, out, err);
    orr_stream_close(stream);
    return named(status, name, err);
}
