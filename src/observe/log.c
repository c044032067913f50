/* Training logs. A table says which line of which framework prints which figure; adding a framework
 * is adding rows. Lines of several ranks may stand between each other in any order: what names the
 * same step is one step, as long as its slowest rank. */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "observe/observe_int.h"

/* Figures beyond those of a step. */
enum {
    LOG_ITERATION = FIG_COUNT,
    LOG_GBS,
    LOG_ALLOCATED,
    LOG_PEAK_ALLOCATED,
    LOG_RESERVED,
    LOG_PEAK_RESERVED,
    LOG_DEVICE,
    LOG_FIELDS
};

typedef struct log_row {
    const char *label;
    uint8_t field;
    double unit; /* of the figure where the line states none */
} log_row;

typedef struct log_kind {
    const char *format;
    const char *sign[2]; /* a line of this kind holds both; NULL: one will do */
    log_row row[12];
} log_kind;

static const log_kind kinds[] = {
    {"megatron-log",
     {"elapsed time per iteration (ms)", NULL},
     {{"iteration", LOG_ITERATION, 1},
      {"elapsed time per iteration (ms)", FIG_STEP_S, ORR_MS},
      {"throughput per GPU (TFLOP/s/GPU)", FIG_TFLOPS, 1},
      {"TFLOPs", FIG_TFLOPS, 1},
      {"tokens per GPU (tokens/s/GPU)", FIG_TOK_GPU, 1},
      {"tokens/s/GPU inst/harmonic mean", FIG_TOK_GPU, 1},
      {"tokens per gpu per second (tgs)", FIG_TOK_GPU, 1},
      {"samples per second", FIG_SAMPLES, 1},
      {"global batch size", LOG_GBS, 1},
      {"hip mem usage/free/total/usage_ratio", LOG_DEVICE, ORR_GIB},
      {"rocm mem usage/free/total/usage_ratio", LOG_DEVICE, ORR_GIB}}},
    {"megatron-bridge-log",
     {"Step Time", "GPU utilization"},
     {{"Step Time", FIG_STEP_S, 1}, {"GPU utilization", FIG_TFLOPS, 1}}},
    {"torchtitan-log",
     {"step:", "tps:"},
     {{"step", LOG_ITERATION, 1},
      {"tps", FIG_TOK_GPU, 1},
      {"tflops", FIG_TFLOPS, 1},
      {"memory", LOG_PEAK_RESERVED, ORR_GIB}}},
    {"torchtitan-log",
     {"step:", "wps:"},
     {{"step", LOG_ITERATION, 1}, {"wps", FIG_TOK_GPU, 1}, {"memory", LOG_PEAK_RESERVED, ORR_GIB}}},
    {"nemo-log",
     {"train_step_timing in s", NULL},
     {{"global_step", LOG_ITERATION, 1},
      {"train_step_timing in s", FIG_STEP_S, 1},
      {"TFLOPS_per_GPU", FIG_TFLOPS, 1},
      {"tflops_per_sec_per_gpu", FIG_TFLOPS, 1},
      {"global_batch_size", LOG_GBS, 1}}},
    {"nanotron-log",
     {"tokens_per_sec_per_gpu", NULL},
     {{"iteration", LOG_ITERATION, 1},
      {"elapsed_time_per_iteration_ms", FIG_STEP_S, ORR_MS},
      {"tokens_per_sec_per_gpu", FIG_TOK_GPU, 1},
      {"tokens_per_sec", FIG_TOK, 1},
      {"model_tflops_per_gpu", FIG_TFLOPS, 1},
      {"global_batch_size", LOG_GBS, 1},
      {"cuda_memory_allocated", LOG_ALLOCATED, 1},
      {"cuda_max_memory_reserved", LOG_PEAK_RESERVED, 1}}},
    {"deepspeed-log",
     {"CurrSamplesPerSec", NULL},
     {{"global_step", LOG_ITERATION, 1},
      {"CurrSamplesPerSec", FIG_SAMPLES, 1},
      {"MemAllocated", LOG_ALLOCATED, ORR_GIB},
      {"MaxMemAllocated", LOG_PEAK_ALLOCATED, ORR_GIB}}},
    {"deepspeed-log",
     {"iter time (s)", NULL},
     {{"steps", LOG_ITERATION, 1},
      {"iter time (s)", FIG_STEP_S, 1},
      {"samples/sec", FIG_SAMPLES, 1}}},
    /* lines without a step */
    {NULL,
     {"memory (MB)", NULL},
     {{"allocated", LOG_ALLOCATED, ORR_MIB},
      {"max allocated", LOG_PEAK_ALLOCATED, ORR_MIB},
      {"reserved", LOG_RESERVED, ORR_MIB},
      {"max reserved", LOG_PEAK_RESERVED, ORR_MIB}}},
    {NULL,
     {"Memory usage:", "Peak allocated"},
     {{"Memory usage", LOG_ALLOCATED, ORR_MIB},
      {"Peak allocated", LOG_PEAK_ALLOCATED, ORR_MIB},
      {"Peak reserved", LOG_PEAK_RESERVED, ORR_MIB}}},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

enum {
    MAX_STEPS = 1 << 20,
    MAX_RANKS = 4096,
    MAX_ARGUMENTS = 2048,
    MAX_PARTS = 128,
    NEAR_STEPS = 64 /* ranks that log one step do so this close */
};

typedef struct series {
    log_step *step;
    size_t count, capacity;
} series;

/* A timer of Megatron-LM: shortest and longest of the ranks, per step. */
typedef struct log_part {
    const char *name;
    double min_s, max_s;
    uint32_t count;
} log_part;

typedef struct log_reader {
    orr_arena *arena;
    series of[KIND_COUNT];
    orr_run_log log;
    bool primus, dropped;
    uint8_t rank_seen[MAX_RANKS / 8];
    orr_tree *arguments;
    log_part part[MAX_PARTS];
    size_t part_count;
    bool in_timers;
} log_reader;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* "[Rank 3]", "[rank3]:", "[default3]:", "[rank-3/8]", or "3: " as srun --label prints it. */
static int64_t rank_of(const char *line) {
    static const char *const words[] = {"[Rank ", "[rank-", "[rank", "[default"};
    double value;
    const char *end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(line, words[i]);
        if (at != NULL && orr_scan_number(at + strlen(words[i]), &value, &end) && value >= 0 &&
            value < 1e9) {
            return (int64_t)value;
        }
    }
    const char *p = line + strspn(line, " ");
    if (is_digit(*p) && orr_scan_number(p, &value, &end) && strncmp(end, ": ", 2) == 0 &&
        value < 1e6) {
        return (int64_t)value;
    }
    return -1;
}

/* K, M, G after a number, decimal, as nanotron prints all of its figures. */
static double decimal_suffix(const char *end) {
    bool ends = end[0] != '\0' && (end[1] == '\0' || strchr(" |,]", end[1]) != NULL);
    if (!ends) {
        return 1;
    }
    return *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : *end == 'T' ? 1e12 : 1;
}

static bool read_row(const char *line, const log_row *row, double *value) {
    const char *end = orr_scan_after(line, row->label, value);
    if (end == NULL) {
        return false;
    }
    bool bytes = row->field >= LOG_ALLOCATED;
    *value *= decimal_suffix(end);
    *value = bytes ? orr_scan_bytes(end, *value, row->unit) : *value * row->unit;
    return *value > 0 || row->field == LOG_ITERATION;
}

static void add_memory(log_reader *r, const double *field, int64_t rank) {
    struct {
        double *to;
        double value;
    } pairs[] = {
        {&r->log.allocated_bytes, field[LOG_ALLOCATED]},
        {&r->log.peak_allocated_bytes, field[LOG_PEAK_ALLOCATED]},
        {&r->log.reserved_bytes, field[LOG_RESERVED]},
        {&r->log.peak_reserved_bytes, field[LOG_PEAK_RESERVED]},
        {&r->log.device_bytes, field[LOG_DEVICE]},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        any = any || pairs[i].value > 0;
        *pairs[i].to = orr_max_f64(*pairs[i].to, pairs[i].value);
    }
    size_t bit = rank >= 0 && rank < MAX_RANKS ? (size_t)rank : 0;
    uint8_t mask = (uint8_t)(1u << (bit % 8));
    if (any && (r->rank_seen[bit / 8] & mask) == 0) {
        r->rank_seen[bit / 8] |= mask;
        r->log.memory_ranks++;
    }
}

/* A step that another rank has logged a moment ago; NULL: none. */
static log_step *same_step(series *s, int64_t iteration) {
    for (size_t i = s->count; iteration >= 0 && i > 0 && i + NEAR_STEPS > s->count; i--) {
        if (s->step[i - 1].iteration == iteration) {
            return &s->step[i - 1];
        }
    }
    return NULL;
}

static void add_step(log_reader *r, series *s, const log_step *one) {
    log_step *same = same_step(s, one->iteration);
    if (same != NULL) {
        if (one->pace > same->pace) {
            *same = *one;
        }
        return;
    }
    if (s->count == MAX_STEPS) {
        r->dropped = true;
        return;
    }
    if (s->count == s->capacity) {
        size_t capacity = s->capacity == 0 ? 256 : 2 * s->capacity;
        log_step *step = ORR_NEW_ARRAY(r->arena, log_step, capacity);
        if (s->count > 0) {
            memcpy(step, s->step, s->count * sizeof *step);
        }
        s->step = step;
        s->capacity = capacity;
    }
    s->step[s->count++] = *one;
}

static bool read_kind(log_reader *r, size_t k, const char *line) {
    const log_kind *kind = &kinds[k];
    if (strstr(line, kind->sign[0]) == NULL ||
        (kind->sign[1] != NULL && strstr(line, kind->sign[1]) == NULL)) {
        return false;
    }
    double field[LOG_FIELDS] = {0};
    bool has_iteration = false;
    for (const log_row *row = kind->row; row->label != NULL; row++) {
        double value;
        if (field[row->field] == 0 && read_row(line, row, &value)) {
            field[row->field] = value;
            has_iteration = has_iteration || row->field == LOG_ITERATION;
        }
    }
    add_memory(r, field, rank_of(line));
    if (field[LOG_GBS] > 0) {
        r->log.gbs = field[LOG_GBS];
    }
    log_step one = {.iteration = has_iteration ? (int64_t)field[LOG_ITERATION] : -1};
    memcpy(one.figure, field, sizeof one.figure);
    one.pace = one.figure[FIG_STEP_S] > 0    ? one.figure[FIG_STEP_S]
               : one.figure[FIG_TOK_GPU] > 0 ? 1 / one.figure[FIG_TOK_GPU]
               : one.figure[FIG_SAMPLES] > 0 ? 1 / one.figure[FIG_SAMPLES]
                                             : 0;
    if (kind->format != NULL && one.pace > 0) {
        add_step(r, &r->of[k], &one);
    }
    return true;
}

/* "  tensor_model_parallel_size ........ 8": Megatron-LM lists its arguments so. */
static bool read_argument(log_reader *r, const char *line) {
    const char *dots = strstr(line, " ...");
    if (dots == NULL) {
        return false;
    }
    const char *start = dots;
    while (start > line &&
           ((start[-1] >= 'a' && start[-1] <= 'z') || start[-1] == '_' || is_digit(start[-1]))) {
        start--;
    }
    const char *value = dots + 1 + strspn(dots + 1, ".");
    bool spaced = start > line && start[-1] == ' ' && *value == ' ';
    if (start == dots || !spaced || dots - start > 80) {
        return false;
    }
    if (r->arguments == NULL) {
        r->arguments = orr_tree_new_map(r->arena);
    }
    if (orr_tree_size(r->arguments) < MAX_ARGUMENTS) {
        const char *name = orr_arena_copy(r->arena, start, (size_t)(dots - start));
        size_t length = strlen(value + 1);
        length = length < 1024 ? length : 1024;
        orr_tree_put_text(r->arena, r->arguments, name,
                          orr_arena_copy(r->arena, value + 1, length));
    }
    return true;
}

/* "    forward-backward ........: (4000.12, 4010.33)", milliseconds of the ranks. */
static bool read_timer(log_reader *r, const char *line) {
    const char *pair = strstr(line, ": ("), *end;
    if (!r->in_timers || pair == NULL) {
        return false;
    }
    size_t skip = strspn(line, " "), length = strcspn(line + skip, " .:");
    double shortest, longest;
    if (length == 0 || length > 60 || !orr_scan_number(pair + 3, &shortest, &end) || *end != ',' ||
        !orr_scan_number(end + 1 + strspn(end + 1, " "), &longest, &end)) {
        return false;
    }
    size_t i = 0;
    while (i < r->part_count && (strlen(r->part[i].name) != length ||
                                 strncmp(r->part[i].name, line + skip, length) != 0)) {
        i++;
    }
    if (i == MAX_PARTS) {
        return true;
    }
    if (i == r->part_count) {
        r->part[r->part_count++] =
            (log_part){.name = orr_arena_copy(r->arena, line + skip, length)};
    }
    /* the first print holds the warm-up: later ones replace it, and are averaged */
    log_part *p = &r->part[i];
    double n = p->count > 0 ? p->count - 1.0 : 0;
    p->min_s = (p->min_s * n + shortest * ORR_MS) / (n + 1);
    p->max_s = (p->max_s * n + longest * ORR_MS) / (n + 1);
    p->count++;
    return true;
}

static void read_world(log_reader *r, const char *line) {
    static const char *const labels[] = {"world size", "world_size", "Total number of GPUs"};
    double value;
    for (size_t i = 0; r->log.gpus == 0 && i < sizeof labels / sizeof *labels; i++) {
        if (orr_scan_after(line, labels[i], &value) != NULL && value >= 1 && value <= 1 << 20) {
            r->log.gpus = (uint32_t)value;
        }
    }
    const char *member = strstr(line, "MEMBER: "), *end;
    if (member != NULL && orr_scan_number(member + 8, &value, &end) && *end == '/' &&
        orr_scan_number(end + 1, &value, &end) && value >= 1 && value <= 1 << 20) {
        r->log.gpus = (uint32_t)value; /* Lightning: GLOBAL_RANK: 0, MEMBER: 1/8 */
    }
}

static void read_line(log_reader *r, const char *line) {
    if (strstr(line, "time across ranks (ms)") != NULL) {
        r->in_timers = true;
        return;
    }
    if (read_timer(r, line)) {
        return;
    }
    if (orr_log_oom(line, rank_of(line), &r->log)) {
        return;
    }
    for (size_t k = 0; k < KIND_COUNT; k++) {
        if (read_kind(r, k, line)) {
            r->in_timers = false;
            r->primus =
                r->primus || (strstr(line, "[rank-") != NULL && strstr(line, "trainer.py") != NULL);
            return;
        }
    }
    if (!read_argument(r, line)) {
        read_world(r, line);
    }
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* Kinds whose steps say most; figures that they lack come from the others. */
static const char *settle(log_reader *r) {
    size_t best = 0;
    for (size_t k = 1; k < KIND_COUNT; k++) {
        best = r->of[k].count > r->of[best].count ? k : best;
    }
    const series *s = &r->of[best];
    orr_log_settle(r->arena, s->step, s->count, &r->log);
    for (size_t k = 0; k < KIND_COUNT; k++) {
        orr_run_log other = {0};
        if (k != best && r->of[k].count > 0) {
            orr_log_settle(r->arena, r->of[k].step, r->of[k].count, &other);
        }
        orr_run_log *l = &r->log;
        l->step_s = l->step_s > 0 ? l->step_s : other.step_s;
        l->tflops_per_gpu = l->tflops_per_gpu > 0 ? l->tflops_per_gpu : other.tflops_per_gpu;
        l->samples_per_s = l->samples_per_s > 0 ? l->samples_per_s : other.samples_per_s;
        l->tokens_per_s_per_gpu =
            l->tokens_per_s_per_gpu > 0 ? l->tokens_per_s_per_gpu : other.tokens_per_s_per_gpu;
    }
    bool bridge = strcmp(kinds[best].format, "megatron-log") == 0 && r->of[1].count > 0;
    return s->count == 0 ? "training-log"
           : bridge      ? kinds[1].format
           : r->primus   ? "primus-log"
                         : kinds[best].format;
}

static orr_tree *write_oom(orr_arena *arena, const orr_run_log *log) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "messages", log->oom_count);
    if (log->oom_rank >= 0) {
        orr_tree_put_int(arena, map, "rank", log->oom_rank);
    }
    orr_put_nonzero(arena, map, "tried_bytes", log->oom_tried_bytes);
    orr_put_nonzero(arena, map, "capacity_bytes", log->oom_capacity_bytes);
    orr_put_nonzero(arena, map, "free_bytes", log->oom_free_bytes);
    orr_put_nonzero(arena, map, "process_bytes", log->oom_process_bytes);
    orr_put_nonzero(arena, map, "allocated_bytes", log->oom_allocated_bytes);
    orr_put_nonzero(arena, map, "reserved_bytes", log->oom_reserved_bytes);
    return map;
}

static void write_memory(orr_arena *arena, orr_tree *map, const orr_run_log *log) {
    if (log->memory_ranks == 0) {
        return;
    }
    orr_tree *memory = orr_tree_put(arena, map, "memory", orr_tree_new_map(arena));
    orr_put_nonzero(arena, memory, "allocated_bytes", log->allocated_bytes);
    orr_put_nonzero(arena, memory, "peak_allocated_bytes", log->peak_allocated_bytes);
    orr_put_nonzero(arena, memory, "reserved_bytes", log->reserved_bytes);
    orr_put_nonzero(arena, memory, "peak_reserved_bytes", log->peak_reserved_bytes);
    orr_put_nonzero(arena, memory, "device_bytes", log->device_bytes);
    orr_tree_put_int(arena, memory, "ranks", log->memory_ranks);
}

static orr_tree *write_log(const log_reader *r) {
    orr_arena *arena = r->arena;
    const orr_run_log *log = &r->log;
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *steps = orr_tree_put(arena, map, "steps", orr_tree_new_map(arena));
    orr_tree_put_int(arena, steps, "seen", log->seen);
    orr_tree_put_int(arena, steps, "warmup", log->warmup);
    orr_tree_put_int(arena, steps, "stalls", log->stalls);
    orr_tree_put_int(arena, steps, "used", log->used);
    orr_put_nonzero(arena, map, "step_time_s", log->step_s);
    orr_put_nonzero(arena, map, "spread_frac", log->spread_frac);
    orr_put_nonzero(arena, map, "stall_frac", log->stall_frac);
    orr_put_nonzero(arena, map, "tokens_per_s_per_gpu", log->tokens_per_s_per_gpu);
    orr_put_nonzero(arena, map, "tokens_per_s", log->tokens_per_s);
    orr_put_nonzero(arena, map, "samples_per_s", log->samples_per_s);
    orr_put_nonzero(arena, map, "tflops_per_gpu", log->tflops_per_gpu);
    orr_put_nonzero(arena, map, "gbs", log->gbs);
    orr_put_nonzero(arena, map, "gpus", log->gpus);
    write_memory(arena, map, log);
    if (log->oom_count > 0) {
        (void)orr_tree_put(arena, map, "out_of_memory", write_oom(arena, log));
    }
    if (r->part_count > 0) {
        orr_tree *parts = orr_tree_put(arena, map, "parts", orr_tree_new_list(arena));
        for (size_t i = 0; i < r->part_count; i++) {
            orr_tree *one = orr_tree_push(arena, parts, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "name", r->part[i].name);
            orr_tree_put_real(arena, one, "min_s", r->part[i].min_s);
            orr_tree_put_real(arena, one, "max_s", r->part[i].max_s);
        }
    }
    return map;
}

orr_status orr_observe_log(orr_arena *arena, orr_stream *stream, orr_observation *out,
                           orr_err *err) {
    log_reader *r = ORR_NEW(arena, log_reader);
    r->arena = arena;
    r->log.oom_rank = -1;
    for (;;) {
        char *line;
        ORR_TRY(orr_stream_line(stream, &line, err));
        if (line == NULL) {
            break;
        }
        read_line(r, line);
    }
    const char *format = settle(r);
    if (r->log.seen == 0 && r->log.memory_ranks == 0 && r->log.oom_count == 0) {
        return ORR_OK; /* kind NONE */
    }
    out->kind = ORR_OBSERVED_LOG;
    out->format = format;
    out->log = r->log;
    out->tree = write_log(r);
    out->content = r->arguments;
    if (r->dropped) {
        orr_observation_warn(arena, out, "steps after the first %d are left out", MAX_STEPS);
    }
    if (r->log.seen > 0 && r->log.used < 3) {
        orr_observation_warn(arena, out, "only %u steps count: too few to tell warm-up from steps",
                             r->log.used);
    }
    return ORR_OK;
}
