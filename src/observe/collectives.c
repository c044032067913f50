/* Tables of nccl-tests and rccl-tests as evidence:
 *
 *   # nThread 1 nGpus 8 minBytes ...
 *   #  Rank  0 Group  0 Pid   4242 on    node-1 device  0 [0x1b] NVIDIA H100 80GB HBM3
 *   #       size  count  type  redop  root   time   algbw   busbw #wrong   time   algbw ...
 *      8388608 2097152 float     sum    -1  168.1   49.91   87.34      0  167.2   50.17 ...
 *
 * Columns differ between versions, so the times are found by what must hold: time x algbw is the
 * size. The operation is told by a name (of the program, or of the file), else by busbw / algbw and
 * the reduction; a table that could be two things is left out and said. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "observe/observe_int.h"

enum { MAX_TOKENS = 24, MAX_HOSTS = 1024, MAX_RECORDS = 1 << 16 };

static const struct {
    const char *program, *op;
} programs[] = {
    {"all_reduce_perf", "all_reduce"},
    {"all_gather_perf", "all_gather"},
    {"reduce_scatter_perf", "reduce_scatter"},
    {"alltoall_perf", "all_to_all"},
    {"sendrecv_perf", "send_recv"},
    {"broadcast_perf", "broadcast"},
};
static const struct {
    const char *word, *op;
} file_words[] = {
    {"all_reduce", "all_reduce"},
    {"allreduce", "all_reduce"},
    {"all-reduce", "all_reduce"},
    {"all_gather", "all_gather"},
    {"allgather", "all_gather"},
    {"all-gather", "all_gather"},
    {"reduce_scatter", "reduce_scatter"},
    {"reducescatter", "reduce_scatter"},
    {"reduce-scatter", "reduce_scatter"},
    {"all_to_all", "all_to_all"},
    {"alltoall", "all_to_all"},
    {"all-to-all", "all_to_all"},
    {"sendrecv", "send_recv"},
    {"send_recv", "send_recv"},
    {"broadcast", "broadcast"},
};

typedef struct table_reader {
    orr_arena *arena;
    orr_observation *out;
    const char *by_file; /* operation that the file's name tells; NULL: none */
    const char *op;      /* that the text names for this table; NULL: none */
    uint32_t ranks, hosts, wrong, unclear, records, reported;
    const char *host[MAX_HOSTS];
    const char *device;
    orr_tree *list;
} table_reader;

static const char *op_of_file(const char *name) {
    const char *slash = name == NULL ? NULL : strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    for (size_t i = 0; base != NULL && i < sizeof file_words / sizeof *file_words; i++) {
        if (strstr(base, file_words[i].word) != NULL) {
            return file_words[i].op;
        }
    }
    return NULL;
}

/* "NVIDIA H100 80GB HBM3" and "AMD Instinct MI300X" by their own names. */
static const char *device_of(orr_arena *arena, const char *detail) {
    static const char *const makers[] = {"NVIDIA ", "AMD ", "Instinct ", "Tesla ",
                                         "Graphics Device"};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t n = strlen(makers[i]);
        detail += strncmp(detail, makers[i], n) == 0 ? n : 0;
    }
    size_t length = strcspn(detail, " \t,(");
    return orr_arena_copy(arena, detail, length < 64 ? length : 64);
}

static void read_rank(table_reader *r, const char *line) {
    const char *on = strstr(line, " on "), *device = strstr(line, " device ");
    double number;
    if (on == NULL || device == NULL || device < on ||
        orr_scan_after(line, "Rank", &number) == NULL) {
        return;
    }
    if (number == 0) { /* another run begins */
        r->ranks = r->hosts = 0;
    }
    r->ranks++;
    on += 4 + strspn(on + 4, " ");
    size_t length = strcspn(on, " ");
    bool known = false;
    for (uint32_t i = 0; i < r->hosts; i++) {
        known = known || (strlen(r->host[i]) == length && strncmp(r->host[i], on, length) == 0);
    }
    if (!known && r->hosts < MAX_HOSTS) {
        r->host[r->hosts++] = orr_arena_copy(r->arena, on, length);
    }
    const char *bracket = strchr(device, ']');
    if (bracket != NULL && r->device == NULL) {
        r->device = device_of(r->arena, bracket + 1 + strspn(bracket + 1, " "));
    }
}

static bool number_of(const char *text, double *value) {
    const char *end;
    return orr_scan_number(text, value, &end) && *end == '\0';
}

/* Index of the time in microseconds, 0: none is. algbw is rounded to two digits. */
static size_t find_time(char **token, size_t count, double size) {
    for (size_t i = 3; i + 2 < count; i++) {
        double time_us, algbw, busbw;
        if (number_of(token[i], &time_us) && number_of(token[i + 1], &algbw) &&
            number_of(token[i + 2], &busbw) && time_us > 0 && algbw >= 0) {
            double exact = size / time_us / 1e3;
            if (fabs(exact - algbw) <= 0.01 * exact + 0.006) {
                return i;
            }
        }
    }
    return 0;
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 0.03 * b;
}

static const char *op_of_ratio(const table_reader *r, double ratio, const char *redop) {
    double share = (r->ranks - 1.0) / r->ranks;
    bool reduces = strcmp(redop, "none") != 0;
    if (r->ranks < 2) {
        return NULL;
    }
    if (is_near(ratio, 2 * share) && reduces) {
        return r->ranks == 2 ? NULL : "all_reduce"; /* for two, 2 (n-1)/n is 1 as well */
    }
    return is_near(ratio, share) && reduces ? "reduce_scatter" : NULL;
}

static void read_row(table_reader *r, char *line) {
    char *token[MAX_TOKENS];
    size_t count = orr_observe_words(line, token, MAX_TOKENS);
    double size, elements, time_us = 0, algbw = 0, busbw = 0;
    if (count < 6 || !number_of(token[0], &size) || !number_of(token[1], &elements) || size < 1) {
        return;
    }
    size_t at = find_time(token, count, size);
    if (at == 0) {
        return;
    }
    (void)number_of(token[at], &time_us);
    (void)number_of(token[at + 1], &algbw);
    (void)number_of(token[at + 2], &busbw);
    double wrong = 0;
    if (at + 3 < count && number_of(token[at + 3], &wrong) && wrong > 0) {
        r->wrong++;
        return;
    }
    const char *op = r->op != NULL ? r->op : r->by_file;
    if (op == NULL && algbw > 1) {
        op = op_of_ratio(r, busbw / algbw, at > 3 ? token[3] : "none");
    }
    if (op == NULL || r->ranks < 2 || r->records == MAX_RECORDS) {
        r->unclear++;
        return;
    }
    r->records++;
    orr_tree *one = orr_tree_push(r->arena, r->list, orr_tree_new_map(r->arena));
    orr_tree_put_text(r->arena, one, "op", op);
    orr_tree_put_real(r->arena, one, "bytes", size);
    orr_tree_put_int(r->arena, one, "ranks", r->ranks);
    orr_tree_put_int(r->arena, one, "domains", r->hosts > 0 ? r->hosts : 1);
    orr_tree_put_real(r->arena, one, "time_us", time_us);
}

static void read_line(table_reader *r, char *line) {
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (strstr(line, programs[i].program) != NULL) {
            r->op = programs[i].op;
        }
    }
    const char *text = line + strspn(line, " \t");
    if (strncmp(text, "# nThread", 9) == 0) {
        r->reported = r->ranks;
        r->ranks = r->hosts = 0;
    } else if (*text == '#') {
        read_rank(r, text);
    } else if (*text >= '0' && *text <= '9') {
        read_row(r, line);
    }
}

orr_status orr_observe_collectives(orr_arena *arena, const char *name, orr_stream *stream,
                                   orr_observation *out, orr_err *err) {
    table_reader *r = ORR_NEW(arena, table_reader);
    r->arena = arena;
    r->out = out;
    r->by_file = op_of_file(name);
    r->list = orr_tree_new_list(arena);
    for (;;) {
        char *line;
        ORR_TRY(orr_stream_line(stream, &line, err));
        if (line == NULL) {
            break;
        }
        read_line(r, line);
    }
    out->kind = ORR_OBSERVED_COLLECTIVES;
    out->format = "nccl-tests";
    out->tree = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out->tree, "device", r->device != NULL ? r->device : "");
    orr_tree_put_int(arena, out->tree, "records", r->records);
    orr_tree_put_int(arena, out->tree, "ranks", r->ranks);
    orr_tree_put_int(arena, out->tree, "hosts", r->hosts);
    out->content = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out->content, "schema", "orrery.evidence/1");
    orr_tree_put_text(arena, out->content, "device", r->device != NULL ? r->device : "unknown");
    orr_tree_put_text(arena, out->content, "source", name != NULL ? name : "nccl-tests");
    (void)orr_tree_put(arena, out->content, "records", r->list);
    if (r->wrong > 0) {
        orr_observation_warn(arena, out, "%u rows with wrong results are left out", r->wrong);
    }
    if (r->unclear > 0) {
        orr_observation_warn(arena, out,
                             "%u rows are left out: neither the text nor the file's name says "
                             "which operation they are, or how many ranks took part",
                             r->unclear);
    }
    if (r->device == NULL) {
        orr_observation_warn(arena, out, "no line names the device");
    }
    return ORR_OK;
}
