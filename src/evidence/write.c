/* Sets out: a file in the tool's own format, and a summary. */
#include <math.h>
#include <string.h>

#include "evidence/evidence_int.h"

/* To the picosecond, so that a time that is read and written again stays what it was. */
static double microseconds(double time_s) {
    double us = time_s * 1e6;
    return us < 1e9 ? round(us * 1e6) / 1e6 : us;
}

static void put_size(orr_arena *arena, orr_tree *map, const char *name, uint64_t value,
                     uint64_t usual) {
    if (value != usual) {
        orr_tree_put_int(arena, map, name, (int64_t)value);
    }
}

static void put_sizes(orr_arena *arena, orr_tree *map, const orr_evidence_key *key) {
    const char *name;
    for (uint32_t d = 0; (name = orr_evidence_size(key->kind, d)) != NULL; d++) {
        put_size(arena, map, name, key->dim[d], 0);
    }
}

orr_tree *orr_evidence_write_record(orr_arena *arena, const orr_evidence_record *record,
                                    const char *name) {
    const orr_evidence_key *key = &record->key;
    orr_tree *map = orr_tree_new_map(arena);
    uint8_t op = key->kind == ORR_OP_COLLECTIVE    ? (uint8_t)(ORR_ROW_COLLECTIVE + key->sub)
                 : key->kind == ORR_EVIDENCE_LAYER ? (uint8_t)ORR_ROW_LAYER
                 : key->kind == ORR_EVIDENCE_UNIT  ? (uint8_t)ORR_ROW_UNIT
                                                   : key->kind;
    bool layer = key->kind >= ORR_EVIDENCE_LAYER;
    orr_tree_put_text(arena, map, "class",
                      layer                            ? "layer"
                      : key->kind == ORR_OP_COLLECTIVE ? "collective"
                                                       : "kernel");
    orr_tree_put_text(arena, map, "op", orr_evidence_ops[op]);
    if (key->kind == ORR_OP_MEMORY) {
        orr_tree_put_text(arena, map, "family", orr_evidence_families[key->sub]);
    } else if (key->kind != ORR_OP_COLLECTIVE) {
        bool whole = (layer || key->kind == ORR_OP_ATTENTION) && key->phase == ORR_PHASE_INPUT_GRAD;
        orr_tree_put_text(arena, map, "phase",
                          whole                            ? "backward"
                          : key->phase == ORR_EVIDENCE_ANY ? "any"
                                                           : orr_evidence_phases[key->phase + 1]);
    }
    if (key->kind <= ORR_OP_ATTENTION) {
        orr_tree_put_text(arena, map, "dtype", orr_dtype_name((orr_dtype)key->dtype));
    }
    if (name != NULL && name[0] != '\0') {
        orr_tree_put_text(arena, map, "name", name);
    }
    put_sizes(arena, map, key);
    if (key->kind == ORR_OP_ATTENTION) {
        orr_tree_put_bool(arena, map, "causal", key->causal != 0);
    }
    put_size(arena, map, "out_bytes", key->out_bytes, 0);
    if (record->time_s > 0) { /* else work to be measured */
        orr_tree_put_real(arena, map, "time_us", microseconds(record->time_s));
    }
    if (record->spread_frac > 0) {
        orr_tree_put_real(arena, map, "spread", record->spread_frac);
    }
    put_size(arena, map, "samples", record->samples, 0);
    return map;
}

static void write_step(orr_arena *arena, orr_tree *records, const orr_evidence_step *step) {
    orr_tree *map = orr_tree_push(arena, records, orr_tree_new_map(arena));
    orr_tree_put_text(arena, map, "class", "step");
    orr_tree_put_text(arena, map, "op", "step");
    orr_tree_put_int(arena, map, "gpus", step->gpus);
    orr_tree_put_real(arena, map, "time_us", microseconds(step->time_s));
    if (step->plan != NULL) {
        (void)orr_tree_put(arena, map, "plan", orr_tree_copy(arena, step->plan));
    }
}

/* What differs from the file's own stays with the record. */
static void put_other(orr_arena *arena, orr_tree *map, const char *name, const char *own,
                      const char *usual) {
    if (own != NULL && strcmp(own, usual != NULL ? usual : "") != 0) {
        orr_tree_put_text(arena, map, name, own);
    }
}

orr_tree *orr_evidence_write(orr_arena *arena, const orr_evidence *evidence,
                             const orr_evidence_identity *identity) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "schema", "orrery.evidence/1");
    orr_tree *device = orr_tree_put(arena, map, "device", orr_tree_new_map(arena));
    orr_tree_put_text(arena, device, "name", identity->device);
    if (identity->device_detail != NULL && identity->device_detail[0] != '\0') {
        orr_tree_put_text(arena, device, "detail", identity->device_detail);
    }
    const char *const texts[][2] = {
        {"software", identity->software}, {"source", identity->source}, {"date", identity->date}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i][1] != NULL && texts[i][1][0] != '\0') {
            orr_tree_put_text(arena, map, texts[i][0], texts[i][1]);
        }
    }
    if (orr_tree_size(identity->gaps) > 0) {
        (void)orr_tree_put(arena, map, "missing", orr_tree_copy(arena, identity->gaps));
    }
    orr_tree *records = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < evidence->count; i++) {
        const orr_evidence_record *record = &evidence->record[i];
        orr_tree *one =
            orr_tree_push(arena, records, orr_evidence_write_record(arena, record, NULL));
        put_other(arena, one, "device", record->device, identity->device);
        put_other(arena, one, "software", record->software, identity->software);
    }
    for (uint32_t i = 0; i < evidence->step_count; i++) {
        write_step(arena, records, &evidence->step[i]);
    }
    orr_tree_put_text(arena, map, "hash",
                      orr_evidence_hash(arena, identity->device, identity->software, records));
    (void)orr_tree_put(arena, map, "records", records);
    return map;
}

static orr_tree *describe_file(orr_arena *arena, const orr_evidence_file *file) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "path", file->path);
    orr_tree_put_text(arena, map, "device", file->device);
    const char *const texts[][2] = {{"detail", file->detail},
                                    {"software", file->software},
                                    {"source", file->source},
                                    {"date", file->date}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i][1][0] != '\0') {
            orr_tree_put_text(arena, map, texts[i][0], texts[i][1]);
        }
    }
    orr_tree_put_int(arena, map, "records", file->records);
    put_size(arena, map, "other_device", file->other_device, 0);
    put_size(arena, map, "other_software", file->other_software, 0);
    put_size(arena, map, "superseded", file->superseded, 0);
    put_size(arena, map, "not_understood", file->not_understood, 0);
    if (file->missing > 0) {
        (void)orr_tree_put(arena, map, "missing", orr_tree_copy(arena, file->gaps));
    }
    if (file->foreign) {
        orr_tree_put_bool(arena, map, "foreign", true);
    }
    return map;
}

orr_tree *orr_evidence_describe(orr_arena *arena, const orr_evidence *evidence) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *files = orr_tree_put(arena, map, "files", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < evidence->file_count; i++) {
        (void)orr_tree_push(arena, files, describe_file(arena, &evidence->file[i]));
    }
    uint32_t counts[ORR_EVIDENCE_KIND_COUNT] = {0};
    for (uint32_t i = 0; i < evidence->count; i++) {
        counts[evidence->record[i].key.kind]++;
    }
    orr_tree *kinds = orr_tree_put(arena, map, "distinct", orr_tree_new_map(arena));
    for (uint8_t k = 0; k < ORR_EVIDENCE_KIND_COUNT; k++) {
        put_size(arena, kinds, orr_evidence_kind_name(k), counts[k], 0);
    }
    put_size(arena, kinds, "step", evidence->step_count, 0);
    orr_tree_put_text(arena, map, "hash",
                      orr_arena_format(arena, "xxh3:%016llx", (unsigned long long)evidence->hash));
    return map;
}
