/* Reading kernel tables. Numbers that are absent or not numbers leave a row without a time. */
#include "cost/kernel_rows.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"

static const char *const CLASSES[] = {"gemm",   "grouped_gemm", "moe_fused",  "attention",
                                      "memops", "collectives",  "ep_alltoall"};
_Static_assert(sizeof CLASSES / sizeof *CLASSES == ORR_KERNELS_COUNT, "one name a class");

/* Columns of each class, in the order that the readers below use them. */
static const char *const COLUMNS[ORR_KERNELS_COUNT][16] = {
    [ORR_KERNELS_GEMM] = {"gpu", "dtype", "source", "note", "time_us", "m", "n", "k", "batch",
                          "layout"},
    [ORR_KERNELS_GROUPED_GEMM] = {"gpu", "dtype", "source", "note", "time_us", "m_per_group", "n",
                                  "k", "groups", "stage"},
    [ORR_KERNELS_MOE_FUSED] = {"gpu", "moe_dtype", "source", "kernel_source", "us", "num_tokens",
                               "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
                               "moe_ep_size", "distribution"},
    [ORR_KERNELS_ATTENTION] = {"gpu", "dtype", "source", "kernel", "time_us", "batch", "seq_q",
                               "seq_kv", "heads", "kv_heads", "head_dim", "head_dim_v", "causal",
                               "phase"},
    [ORR_KERNELS_MEMOPS] = {"gpu", "dtype", "source", "note", "time_us", "rows", "cols", "bytes",
                            "op"},
    [ORR_KERNELS_COLLECTIVES] = {"system", "op", "source", "note", "time_us", "bytes", "num_gpus",
                                 "nodes"},
    [ORR_KERNELS_EP_ALLTOALL] = {"gpu", "kind", "source", "kind", "dispatch_us", "nodes", "ep",
                                 "tokens_per_rank", "hidden", "topk", "experts", "sms",
                                 "combine_us"},
};
/* What tells a class from the others by its header. */
static const char *const MARK[ORR_KERNELS_COUNT] = {
    "layout", "m_per_group", "moe_dtype", "kv_heads", "cols", "num_gpus", "tokens_per_rank"};
enum { DEVICE = 0, DTYPE, SOURCE, KERNEL, TIME, FIRST };
/* Columns from FIRST on, as bits, without which no row has a shape. */
static const uint16_t NEEDED[ORR_KERNELS_COUNT] = {0x7, 0x7, 0x7f, 0x2f, 0x4, 0x3, 0x3e};

const char *orr_kernel_class_name(orr_kernel_class class) {
    return class < ORR_KERNELS_COUNT ? CLASSES[class] : "unknown";
}

static bool is_needed(orr_kernel_class class, int column, bool timed) {
    return column == DEVICE || column == DTYPE || (timed && (column == SOURCE || column == TIME)) ||
           (column >= FIRST && (NEEDED[class] >> (column - FIRST) & 1));
}

/* Needed columns that the header has (have), or has not. */
static int count_columns(const orr_csv *csv, orr_kernel_class class, bool have) {
    int count = 0;
    for (int i = 0; i < 16; i++) {
        count += is_needed(class, i, false) && (orr_csv_find(csv, COLUMNS[class][i]) >= 0) == have;
    }
    return count;
}

/* A header in other letters, or cut by something else than commas. */
static const char *header_hint(const orr_csv *csv) {
    const char *first = orr_csv_column(csv, 0);
    if (orr_csv_columns(csv) == 1 && strpbrk(first, ";\t|") != NULL) {
        return "columns are separated by commas";
    }
    for (size_t i = 0; i < orr_csv_columns(csv); i++) {
        const char *name = orr_csv_column(csv, i) + strspn(orr_csv_column(csv, i), " ");
        static const char *const words[] = {"gpu", "dtype", "system", "moe_dtype"};
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            if (strcmp(orr_csv_column(csv, i), words[w]) != 0 && orr_name_equal(name, words[w])) {
                return "names of columns are in small letters, without spaces: gpu,dtype,m,n,k";
            }
        }
    }
    return "a header such as gpu,dtype,m,n,k is of products; --class NAME says which columns its "
           "tables need";
}

/* Of the class named, else of the one whose mark or whose columns the header has. */
static orr_status find_class(const orr_csv *csv, const char *path, const char *name,
                             orr_kernel_class *out, orr_err *err) {
    for (int i = 0; i < ORR_KERNELS_COUNT; i++) {
        if (name != NULL ? strcmp(name, CLASSES[i]) == 0 : orr_csv_find(csv, MARK[i]) >= 0) {
            *out = (orr_kernel_class)i;
            return ORR_OK;
        }
    }
    if (name != NULL) {
        return orr_fail(err, ORR_E_NAME, "unknown class of kernels \"%s\"", name);
    }
    for (int allowed = 0; allowed <= 1; allowed++) { /* one missing is named, see the caller */
        for (int i = 0; i < ORR_KERNELS_COUNT; i++) {
            if (count_columns(csv, (orr_kernel_class)i, false) <= allowed &&
                count_columns(csv, (orr_kernel_class)i, true) > 2 * allowed) {
                *out = (orr_kernel_class)i;
                return ORR_OK;
            }
        }
    }
    (void)orr_fail(err, ORR_E_SCHEMA, "%s has the columns of no class of kernels", path);
    orr_hint(err, "%s", header_hint(csv));
    return ORR_E_SCHEMA;
}

orr_status orr_kernel_rows_open(orr_arena *arena, const char *path, const char *class, bool timed,
                                orr_kernel_rows *out, orr_err *err) {
    char *text = NULL;
    size_t length = 0;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    ORR_TRY(orr_csv_open(arena, path, text, length, &out->csv, err));
    ORR_TRY(find_class(out->csv, path, class, &out->class, err));
    orr_text lacking = orr_text_new(arena, 512);
    int count = 0;
    for (int i = 0; i < 16; i++) {
        const char *name = COLUMNS[out->class][i];
        out->column[i] = name == NULL ? -1 : orr_csv_find(out->csv, name);
        if (is_needed(out->class, i, timed) && out->column[i] < 0) {
            orr_text_format(&lacking, "%s\"%s\"", count++ > 0 ? ", " : "", name);
        }
    }
    return count == 0
               ? ORR_OK
               : orr_fail(err, ORR_E_SCHEMA, "%s: a table of %s needs the column%s %s", path,
                          CLASSES[out->class], count > 1 ? "s" : "", orr_text_done(&lacking));
}

/* ---- one row -------------------------------------------------------------------------------- */

typedef struct cells {
    const orr_kernel_rows *rows;
    const char *const *cell;
} cells;

static const char *text_of(const cells *c, int column) {
    int at = c->rows->column[column];
    return at < 0 ? "" : c->cell[at];
}

/* 0 where there is no positive number that can be counted with; tuners write "inf" for kernels that
 * failed. */
static double number_of(const cells *c, int column) {
    static const double MOST = 9007199254740992.0; /* 2^53 */
    double value = 0;
    return orr_parse_real(text_of(c, column), &value) && value > 0 && value <= MOST ? value : 0;
}

/* The first column that a price needs and that holds no number; NULL: none. */
static const char *first_lacking(const cells *c) {
    for (int i = FIRST; i < 16; i++) {
        if (NEEDED[c->rows->class] >> (i - FIRST) & 1 && !(number_of(c, i) > 0)) {
            return COLUMNS[c->rows->class][i];
        }
    }
    return NULL;
}

static bool all_positive(const double *value, int count) {
    for (int i = 0; i < count; i++) {
        if (!(value[i] > 0)) {
            return false;
        }
    }
    return true;
}

static bool read_gemm(const cells *c, orr_kernel_row *row) {
    row->shape.gemm.m = number_of(c, FIRST);
    row->shape.gemm.n = number_of(c, FIRST + 1);
    row->shape.gemm.k = number_of(c, FIRST + 2);
    row->shape.gemm.batch = number_of(c, FIRST + 3);
    if (!(row->shape.gemm.batch > 0)) {
        row->shape.gemm.batch = 1;
    }
    row->shape.gemm.accumulates = strstr(row->kernel, "out=fp32") != NULL;
    double least =
        orr_min_f64(row->shape.gemm.m, orr_min_f64(row->shape.gemm.n, row->shape.gemm.k));
    row->training = least >= 512;
    return least > 0;
}

/* The whole number behind a word of a note, such as "topk=8"; 0: none. */
static double number_in(const char *note, const char *word) {
    const char *at = strstr(note, word);
    double value = 0;
    for (at = at == NULL ? "" : at + strlen(word); *at >= '0' && *at <= '9' && value < 1e9; at++) {
        value = 10 * value + (*at - '0');
    }
    return value;
}

/* Tables of tuners say in notes and file names what shares a scale and how wide activations are,
 * and round rows a group, which tokens and copies give exactly. */
static void read_tuned(const char *note, orr_kernel_row *row) {
    static const char *const notes[] = {"per_Token", "per_1x128", "per_1x32"};
    static const char *const files[] = {"fp8fp4", "a8w4"}; /* 8-bit activations, 4-bit weights */
    enum { NOTES = sizeof notes / sizeof *notes, FILES = sizeof files / sizeof *files };
    row->shape.gemm.scales = 0;
    for (uint8_t i = 0; i < NOTES; i++) {
        row->shape.gemm.scales =
            strstr(note, notes[i]) != NULL ? (uint8_t)(i + 1) : row->shape.gemm.scales;
    }
    for (size_t i = 0; i < FILES; i++) {
        row->shape.gemm.scales =
            strstr(row->source, files[i]) != NULL ? NOTES + 1 : row->shape.gemm.scales;
    }
    double tokens = number_in(note, "token="), topk = number_in(note, "topk=");
    row->shape.gemm.topk = tokens > 0 ? topk : 0;
    if (row->shape.gemm.topk > 0) {
        row->shape.gemm.m = tokens * topk / row->shape.gemm.batch;
    }
}

static bool read_grouped(const cells *c, orr_kernel_row *row) {
    bool good = read_gemm(c, row);
    const char *stage = text_of(c, FIRST + 4);
    read_tuned(text_of(c, KERNEL), row);
    row->kernel = stage;
    row->stage = strstr(stage, "wgrad") != NULL   ? ORR_STAGE_WGRAD
                 : strstr(stage, "dgrad") != NULL ? ORR_STAGE_DGRAD
                                                  : ORR_STAGE_FORWARD;
    row->shape.gemm.accumulates = row->stage == ORR_STAGE_WGRAD;
    row->training = row->shape.gemm.m >= 256;
    return good;
}

static bool read_moe(const cells *c, orr_kernel_row *row) {
    double value[7];
    for (int i = 0; i < 7; i++) {
        value[i] = number_of(c, FIRST + i);
    }
    row->shape.moe.tokens = value[0];
    row->shape.moe.hidden = value[1];
    row->shape.moe.inter = value[2];
    row->shape.moe.topk = value[3];
    row->shape.moe.experts = value[4];
    row->shape.moe.tp = value[5];
    row->shape.moe.ep = value[6];
    const char *distribution = text_of(c, FIRST + 7);
    static const char POWER[] = "power_law_";
    row->shape.moe.skew = 0;
    if (strncmp(distribution, POWER, sizeof POWER - 1) == 0) {
        (void)orr_parse_real(distribution + sizeof POWER - 1, &row->shape.moe.skew);
    }
    row->training = value[0] * value[3] / orr_max_f64(value[4], 1) >= 256;
    return all_positive(value, 7);
}

static bool read_attention(const cells *c, orr_kernel_row *row) {
    double value[7];
    for (int i = 0; i < 7; i++) {
        value[i] = number_of(c, FIRST + i);
    }
    const char *causal = text_of(c, FIRST + 7), *phase = text_of(c, FIRST + 8);
    row->shape.attention =
        (orr_attention_shape){.batch = value[0],
                              .seq_q = value[1],
                              .seq_kv = value[2],
                              .heads = value[3],
                              .kv_heads = value[4] > 0 ? value[4] : value[3],
                              .head_dim = value[5],
                              .v_dim = value[6] > 0 ? value[6] : value[5],
                              .causal = strcmp(causal, "1") == 0 || strcmp(causal, "true") == 0,
                              .backward = strcmp(phase, "bwd") == 0};
    row->shape.attention.deterministic = strstr(row->kernel, " det") != NULL;
    const char *window = strstr(row->kernel, "sw=");
    if (window != NULL) {
        double wide = 0;
        for (window += 3; *window >= '0' && *window <= '9' && wide < 1e9; window++) {
            wide = 10 * wide + (*window - '0');
        }
        row->shape.attention.window = wide;
    }
    row->stage = strcmp(phase, "fwd+bwd") == 0   ? ORR_STAGE_BOTH
                 : row->shape.attention.backward ? ORR_STAGE_BACKWARD
                                                 : ORR_STAGE_FORWARD;
    row->training = value[1] >= 2048;
    value[4] = 1;
    value[6] = 1;
    return all_positive(value, 7);
}

/* "fwd:rms_norm cudnn": the op, and the library where a note of several words begins with it. */
static void name_memop(const cells *c, orr_kernel_row *row) {
    const char *op = text_of(c, FIRST + 3), *note = text_of(c, KERNEL);
    size_t word = strcspn(note, " ");
    if (note[word] == '\0') {
        word = 0;
    }
    (void)snprintf(row->name, sizeof row->name, "%.48s%s%.*s", op, word > 0 ? " " : "",
                   (int)orr_min_u64(word, 40), note);
    row->kernel = row->name;
}

static bool read_memop(const cells *c, orr_kernel_row *row) {
    row->shape.memop.rows = number_of(c, FIRST);
    row->shape.memop.columns = number_of(c, FIRST + 1);
    row->shape.memop.bytes = number_of(c, FIRST + 2);
    name_memop(c, row);
    row->shape.memop.backward = strncmp(row->kernel, "bwd:", 4) == 0;
    row->training = row->shape.memop.bytes >= 16 * ORR_MIB;
    return row->shape.memop.bytes > 0;
}

/* "NCCL 2.29.2" out of "aic:nccl-tests NCCL-2.29.2", "RCCL 2.22.3" out of a note, "custom
 * vllm_graph" for a framework's own kernels; the source where nothing is said. */
static void name_library(const cells *c, orr_kernel_row *row) {
    const char *note = text_of(c, KERNEL), *nccl = strstr(row->source, "NCCL-");
    const char *rccl = strstr(note, "RCCL ");
    if (nccl != NULL) {
        (void)snprintf(row->name, sizeof row->name, "NCCL %.40s", nccl + 5);
    } else if (rccl != NULL) {
        (void)snprintf(row->name, sizeof row->name, "RCCL %.*s",
                       (int)orr_min_u64(strspn(rccl + 5, "0123456789."), 40), rccl + 5);
    } else if (strstr(row->source, "custom") != NULL) {
        (void)snprintf(row->name, sizeof row->name, "custom %.*s",
                       (int)orr_min_u64(strcspn(note, " "), 40), note);
    } else {
        (void)snprintf(row->name, sizeof row->name, "%.*s",
                       (int)orr_min_u64(strcspn(row->source, "@"), 60), row->source);
    }
    row->kernel = row->name;
}

static bool read_collective(const cells *c, orr_kernel_row *row) {
    static const struct {
        const char *name;
        orr_collective op;
    } names[] = {{"all_reduce", ORR_ALL_REDUCE},         {"all_gather", ORR_ALL_GATHER},
                 {"reduce_scatter", ORR_REDUCE_SCATTER}, {"all_to_all", ORR_ALL_TO_ALL},
                 {"alltoall", ORR_ALL_TO_ALL},           {"p2p", ORR_SEND_RECV},
                 {"send_recv", ORR_SEND_RECV},           {"broadcast", ORR_BROADCAST}};
    name_library(c, row);
    row->shape.collective.bytes = number_of(c, FIRST);
    row->shape.collective.ranks = number_of(c, FIRST + 1);
    row->shape.collective.nodes = orr_max_f64(1, number_of(c, FIRST + 2));
    row->training = row->shape.collective.bytes >= ORR_MIB;
    if (strstr(text_of(c, KERNEL), "not a measurement") != NULL) {
        return false; /* what a test suite accepts is no time that anything took */
    }
    if (strstr(row->device, "overlapped") != NULL) {
        return false; /* inside a step, it waits for other ranks */
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(row->dtype, names[i].name) == 0) {
            row->shape.collective.op = (uint8_t)names[i].op;
            double ranks = row->shape.collective.ranks;
            return row->shape.collective.bytes > 0 && ranks >= 2 && ranks <= ORR_MAX_GPUS &&
                   row->shape.collective.nodes <= ranks;
        }
    }
    return false;
}

static bool read_exchange(const cells *c, orr_kernel_row *row) {
    row->shape.exchange.nodes = orr_max_f64(1, number_of(c, FIRST));
    row->shape.exchange.ep = number_of(c, FIRST + 1);
    row->shape.exchange.tokens = number_of(c, FIRST + 2);
    row->shape.exchange.hidden = number_of(c, FIRST + 3);
    row->shape.exchange.topk = number_of(c, FIRST + 4);
    row->shape.exchange.experts = number_of(c, FIRST + 5);
    row->shape.exchange.sms = number_of(c, FIRST + 6);
    row->shape.exchange.dispatch_s = number_of(c, TIME) * ORR_US;
    row->shape.exchange.combine_s = number_of(c, FIRST + 7) * ORR_US;
    row->time_s = row->shape.exchange.dispatch_s + row->shape.exchange.combine_s;
    row->training = row->shape.exchange.tokens >= 1024; /* training sizes: docs/kernels.md */
    return row->shape.exchange.tokens > 0 && row->shape.exchange.ep > 1 &&
           row->shape.exchange.hidden > 0 && row->shape.exchange.topk > 0 &&
           row->shape.exchange.experts >= row->shape.exchange.topk;
}

orr_status orr_kernel_rows_next(orr_kernel_rows *rows, orr_kernel_row *out, bool *more,
                                orr_err *err) {
    static bool (*const read[ORR_KERNELS_COUNT])(const cells *, orr_kernel_row *) = {
        read_gemm,  read_grouped,    read_moe,     read_attention,
        read_memop, read_collective, read_exchange};
    cells c = {.rows = rows};
    ORR_TRY(orr_csv_next(rows->csv, &c.cell, more, err));
    *out = (orr_kernel_row){0};
    if (!*more) {
        return ORR_OK;
    }
    out->device = text_of(&c, DEVICE);
    out->dtype = text_of(&c, DTYPE);
    out->source = text_of(&c, SOURCE);
    out->kernel = text_of(&c, KERNEL);
    out->time_s = number_of(&c, TIME) * ORR_US;
    out->cell = c.cell;
    out->whole = read[rows->class](&c, out);
    if (!out->whole) {
        out->time_s = 0;
        out->lacks = first_lacking(&c);
    }
    return ORR_OK;
}

/* ---- shapes --------------------------------------------------------------------------------- */

orr_experts_shape orr_kernel_experts(const orr_kernel_row *row, orr_kernel_class class,
                                     double weight_bytes) {
    static const double ACTIVATION_BYTES = 2, MAIN_GRADIENT_BYTES = 8; /* read and written */
    if (class == ORR_KERNELS_GROUPED_GEMM) {
        double n = row->shape.gemm.n, k = row->shape.gemm.k, groups = row->shape.gemm.batch;
        double element = row->stage == ORR_STAGE_WGRAD ? MAIN_GRADIENT_BYTES : weight_bytes;
        return (orr_experts_shape){.rows = row->shape.gemm.m * groups,
                                   .most_rows = row->shape.gemm.m * groups,
                                   .groups = groups,
                                   .topk = row->shape.gemm.topk,
                                   .scales = row->shape.gemm.scales,
                                   .row_flops = 2 * n * k,
                                   .group_bytes = n * k * element,
                                   .depth = k,
                                   .columns = n,
                                   .width_in = k,
                                   .width_out = n,
                                   .ranks = 1};
    }
    double hidden = row->shape.moe.hidden, inter = row->shape.moe.inter / row->shape.moe.tp;
    double tokens = row->shape.moe.tokens, topk = row->shape.moe.topk;
    double groups = orr_max_f64(1, row->shape.moe.experts / row->shape.moe.ep);
    return (orr_experts_shape){.tokens = tokens,
                               .rows = tokens * topk / row->shape.moe.ep,
                               .most_rows = tokens * orr_min_f64(topk, groups),
                               .groups = groups,
                               .row_flops = 6 * hidden * inter, /* gate, up, down */
                               .group_bytes = 3 * hidden * inter * weight_bytes,
                               .token_bytes = 2 * ACTIVATION_BYTES * hidden,
                               .depth = hidden + inter,
                               .columns = 2 * inter + hidden,
                               .width_in = hidden,
                               .width_out = inter,
                               .ranks = row->shape.moe.ep,
                               .skewed = row->shape.moe.skew > 0};
}

orr_exchange_shape orr_kernel_exchange(const orr_kernel_row *row) {
    static const double USUAL_UNITS = 20; /* where a kernel does not take a number of SMs */
    return (orr_exchange_shape){.ranks = row->shape.exchange.ep,
                                .nodes = row->shape.exchange.nodes,
                                .tokens = row->shape.exchange.tokens,
                                .hidden = row->shape.exchange.hidden,
                                .topk = row->shape.exchange.topk,
                                .experts = row->shape.exchange.experts,
                                .units = row->shape.exchange.sms > 0 ? row->shape.exchange.sms
                                                                     : USUAL_UNITS};
}
