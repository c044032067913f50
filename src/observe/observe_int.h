/* Shared by the readers of this module. */
#ifndef ORR_OBSERVE_INT_H
#define ORR_OBSERVE_INT_H

#include "doc/doc.h"
#include "doc/stream.h"
#include "observe/observe.h"

/* Readers take a stream whose first part they may have seen. */
orr_status orr_observe_log(orr_arena *arena, orr_stream *stream, orr_observation *out,
                           orr_err *err);

orr_status orr_observe_collectives(orr_arena *arena, const char *name, orr_stream *stream,
                                   orr_observation *out, orr_err *err);
orr_status orr_observe_kineto(orr_arena *arena, orr_stream *stream, orr_observation *out,
                              orr_err *err);
orr_status orr_observe_topo(orr_arena *arena, const char *name, orr_stream *stream,
                            orr_observation *out, orr_err *err);
orr_status orr_observe_rocm(orr_arena *arena, const char *name, orr_stream *stream,
                            orr_observation *out, orr_err *err);
orr_status orr_observe_xml(orr_arena *arena, const char *name, orr_stream *stream,
                           orr_observation *out, orr_err *err);
orr_status orr_observe_snapshot(orr_arena *arena, orr_stream *stream, orr_observation *out,
                                orr_err *err);
/* path NULL: of bytes at hand. */
orr_status orr_observe_nsys(orr_arena *arena, const char *path, const char *bytes, size_t length,
                            orr_observation *out, orr_err *err);
/* Whether a text of some length holds a word. */
bool orr_holds(const char *text, size_t length, const char *word);

/* The words of a line, cut in place: at most `most`. */
size_t orr_observe_words(char *line, char **word, size_t most);

/* Numbers in text: "7,210", "4.1e-3", "12.3K", "45.06GiB". *end is after it; false when none starts
 * here. */
bool orr_scan_number(const char *text, double *value, const char **end);
/* The number after `label` and blanks, ':', '='; the first place in the text where one follows.
 * NULL: none, else what follows it. */
const char *orr_scan_after(const char *text, const char *label, double *value);
/* A number with a unit of bytes, times `unit` when it states none. KiB and KB both count 1024, as
 * PyTorch prints them. */
double orr_scan_bytes(const char *end, double value, double unit);

void orr_observation_warn(orr_arena *arena, orr_observation *o, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void orr_put_nonzero(orr_arena *arena, orr_tree *map, const char *key, double value);

/* log_steps.c: which steps count. */
typedef struct log_step {
    int64_t iteration;
    double pace;      /* seconds of a step, or what is proportional to them */
    double figure[5]; /* orr_log_figure; 0: not printed */
} log_step;
typedef enum log_figure { FIG_STEP_S, FIG_TOK_GPU, FIG_TOK, FIG_SAMPLES, FIG_TFLOPS } log_figure;
enum { FIG_COUNT = 5 };
void orr_log_settle(orr_arena *arena, const log_step *step, size_t count, orr_run_log *out);

/* oom.c: true when the line is an out-of-memory message, whose figures the first one leaves. */
bool orr_log_oom(const char *line, int64_t rank, orr_run_log *log);

#endif
