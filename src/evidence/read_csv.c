/* Tables of evidence: the tool's own columns, and those of public tables of kernels.
 *
 * A foreign table is told by its columns; each of them is a field of a record under another name,
 * with other words for phases. Columns that a record has no place for are passed over. */
#include <string.h>

#include "base/err.h"
#include "evidence/evidence_int.h"

typedef struct alias {
    const char *column, *field;
} alias;

typedef struct table {
    const char *op;       /* NULL: a column says it */
    const char *needs[5]; /* columns by which it is told */
    alias names[20];
} table;

/* First match wins: grouped before plain, since both have m, n, k. */
static const table tables[] = {
    {.op = "grouped_gemm",
     .needs = {"gpu", "groups", "m_per_group", "stage"},
     .names = {{"gpu", "device"},
               {"dtype", "dtype"},
               {"groups", "batch"},
               {"m_per_group", "m"},
               {"n", "n"},
               {"k", "k"},
               {"stage", "phase"},
               {"time_us", "time_us"},
               {"source", "source"},
               {"software", "software"}}},
    {.op = "gemm",
     .needs = {"gpu", "m", "n", "k"},
     .names = {{"gpu", "device"},
               {"dtype", "dtype"},
               {"m", "m"},
               {"n", "n"},
               {"k", "k"},
               {"batch", "batch"},
               {"layout", "phase"},
               {"note", "out_bytes"},
               {"time_us", "time_us"},
               {"source", "source"},
               {"software", "software"}}},
    {.op = "attention",
     .needs = {"gpu", "seq_q", "heads", "head_dim"},
     .names = {{"gpu", "device"},
               {"dtype", "dtype"},
               {"phase", "phase"},
               {"batch", "batch"},
               {"seq_q", "seq_q"},
               {"seq_kv", "seq_kv"},
               {"heads", "heads"},
               {"kv_heads", "kv_heads"},
               {"head_dim", "head_dim"},
               {"head_dim_v", "v_dim"},
               {"causal", "causal"},
               {"time_us", "time_us"},
               {"source", "source"},
               {"software", "software"}}},
    {.op = NULL,
     .needs = {"system", "op", "num_gpus", "bytes"},
     .names = {{"system", "device"},
               {"op", "op"},
               {"num_gpus", "ranks"},
               {"nodes", "domains"},
               {"bytes", "bytes"},
               {"time_us", "time_us"},
               {"source", "source"},
               {"software", "software"}}},
};
enum { TABLES = sizeof tables / sizeof *tables, MAX_COLUMNS = 64 };

static bool has_columns(const orr_csv *csv, const char *const *needs) {
    for (size_t i = 0; i < 5 && needs[i] != NULL; i++) {
        if (orr_csv_find(csv, needs[i]) < 0) {
            return false;
        }
    }
    return true;
}

static const table *table_of(const orr_csv *csv) {
    for (size_t i = 0; i < TABLES; i++) {
        if (has_columns(csv, tables[i].needs)) {
            return &tables[i];
        }
    }
    return NULL;
}

/* Phases by the layouts of a linear's three products, and by stage. */
static const char *phase_word(const char *cell) {
    static const alias words[] = {{"TN", "forward"},       {"NN", "input_grad"},
                                  {"NT", "weight_grad"},   {"fwd", "forward"},
                                  {"dgrad", "input_grad"}, {"wgrad", "weight_grad"},
                                  {"bwd", "backward"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(cell, words[i].column) == 0) {
            return words[i].field;
        }
    }
    return "any";
}

/* Traffic of the output as a note states it: added to an fp32 or 16-bit sum, or written once. */
static const char *output_bytes(const char *note) {
    bool sums = strstr(note, "accum=True") != NULL;
    if (strstr(note, "out=fp32") != NULL) {
        return sums ? "8" : "4";
    }
    return strstr(note, "out=bf16") != NULL ? (sums ? "4" : "2") : "0";
}

/* A grouped table keeps the forward's n and k for all three products. */
static void turn_grouped(orr_evidence_row *row) {
    orr_evidence_row was = *row;
    if (row->op == ORR_OP_GROUPED_GEMM && row->phase == ORR_PHASE_INPUT_GRAD + 1) {
        row->n = was.k;
        row->k = was.n;
    } else if (row->op == ORR_OP_GROUPED_GEMM && row->phase == ORR_PHASE_WEIGHT_GRAD + 1) {
        row->m = was.n;
        row->n = was.k;
        row->k = was.m;
    }
}

/* Nodes are not scale-up domains where those are wider than a host. */
static void turn_domains(const orr_evidence_draft *draft, orr_evidence_row *row) {
    const orr_accelerator *device = draft->device;
    if (device != NULL && row->ranks <= device->domain && device->domain > device->node) {
        row->domains = 1;
    }
}

typedef struct reader {
    const table *table;             /* NULL: own columns */
    const char *field[MAX_COLUMNS]; /* of each column; NULL: passed over */
} reader;

static void plan_columns(const orr_csv *csv, reader *r) {
    r->table = orr_csv_find(csv, "time_us") >= 0 && orr_csv_find(csv, "device") >= 0
                   ? NULL
                   : table_of(csv);
    for (size_t c = 0; c < orr_csv_columns(csv) && c < MAX_COLUMNS; c++) {
        r->field[c] = r->table == NULL ? orr_csv_column(csv, c) : NULL;
        for (size_t i = 0; r->table != NULL && r->table->names[i].column != NULL; i++) {
            if (strcmp(orr_csv_column(csv, c), r->table->names[i].column) == 0) {
                r->field[c] = r->table->names[i].field;
            }
        }
    }
}

static orr_tree *row_map(orr_arena *arena, const reader *r, const char *const *cells,
                         size_t columns) {
    orr_tree *map = orr_tree_new_map(arena);
    if (r->table != NULL && r->table->op != NULL) {
        orr_tree_put_text(arena, map, "op", r->table->op);
    }
    for (size_t c = 0; c < columns; c++) {
        const char *cell = cells[c];
        if (r->field[c] == NULL || cell[0] == '\0') {
            continue;
        }
        if (r->table != NULL && strcmp(r->field[c], "phase") == 0) {
            cell = phase_word(cell);
        } else if (r->table != NULL && strcmp(r->field[c], "out_bytes") == 0) {
            cell = output_bytes(cell);
        } else if (r->table != NULL && strcmp(r->field[c], "causal") == 0) {
            cell = cell[0] == '1' || cell[0] == 'T' ? "yes" : "no";
        }
        orr_tree_put_text(arena, map, r->field[c], cell);
    }
    return map;
}

/* Foreign tables hold words that plans have no use for; own ones must be right. */
static orr_status take_row(orr_evidence_draft *draft, const reader *r, const orr_tree *map,
                           orr_arena *scratch, orr_span span, orr_err *err) {
    orr_evidence_row row;
    memset(&row, 0, sizeof row);
    orr_err problem = {0};
    orr_status status =
        orr_schema_read(&orr_evidence_row_schema, scratch, map, &row, NULL, &problem);
    if (status == ORR_OK && r->table != NULL) {
        turn_grouped(&row);
        turn_domains(draft, &row);
    }
    if (status == ORR_OK) {
        status = orr_evidence_take(draft, &row, &problem);
    }
    if (status == ORR_OK) {
        return ORR_OK;
    }
    if (r->table != NULL && status == ORR_E_SCHEMA) {
        draft->set->file[draft->set->file_count - 1].not_understood++;
        return ORR_OK;
    }
    return orr_fail_at(err, status, span, "%s", problem.message);
}

orr_status orr_evidence_read_csv(orr_evidence_draft *draft, const char *name, const char *text,
                                 size_t length, orr_err *err) {
    orr_csv *csv = NULL;
    ORR_TRY(orr_csv_open(draft->arena, name, text, length, &csv, err));
    reader r = {0};
    plan_columns(csv, &r);
    size_t columns = orr_csv_columns(csv);
    if (columns > MAX_COLUMNS || orr_csv_find(csv, "time_us") < 0) {
        orr_status status =
            columns > MAX_COLUMNS
                ? orr_fail_at(err, ORR_E_SCHEMA, (orr_span){name, 1, 0},
                              "a table of evidence has up to %d columns, not %zu", MAX_COLUMNS,
                              columns)
                : orr_fail_at(err, ORR_E_SCHEMA, (orr_span){name, 1, 0},
                              "this is no table of evidence: it has no column 'time_us'");
        orr_hint(err, "docs/evidence.md lists the columns");
        return status;
    }
    orr_arena *scratch = orr_arena_new();
    const char *const *cells = NULL;
    bool more = true;
    orr_status status = ORR_OK;
    while (status == ORR_OK) {
        status = orr_csv_next(csv, &cells, &more, err);
        if (status != ORR_OK || !more) {
            break;
        }
        orr_arena_reset(scratch);
        const orr_tree *map = row_map(scratch, &r, cells, columns);
        status = take_row(draft, &r, map, scratch, (orr_span){name, orr_csv_line(csv), 0}, err);
    }
    orr_arena_free(scratch);
    return status;
}
