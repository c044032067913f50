/* Files of evidence: whose they are, what of them is taken. */
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "evidence/evidence_int.h"
#include "observe/observe.h"
#include "orrery/orrery.h"
#include "software/software.h"

typedef struct header {
    const char *schema, *software, *source, *date, *hash;
    const orr_tree *device, *records, *missing;
} header;

#define TEXT(member, usual, text)                                                                  \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(header, member),                                                           \
     .fallback = usual,                                                                            \
     .doc = text}
#define TREE(member, usual, text)                                                                  \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TREE,                                                                       \
     .offset = offsetof(header, member),                                                           \
     .fallback = usual,                                                                            \
     .doc = text}
static const orr_field header_fields[] = {
    TEXT(schema, NULL, "orrery.evidence/1"),
    TREE(device, NULL, "catalog name, or {name, detail, driver, clock_mhz}"),
    TEXT(software, "", "profile, or what ran: framework and libraries with versions"),
    TEXT(source, "", "who measured it"),
    TEXT(date, "", "when"),
    TEXT(hash, "", "of the records; a file whose records do not match is refused"),
    TREE(missing, "", "list of {what, why}: what could not be measured"),
    TREE(records, NULL, "list of records"),
};
static const orr_schema header_schema = {"evidence file", header_fields,
                                         sizeof header_fields / sizeof *header_fields, false};

/* ---- identity ------------------------------------------------------------------------------- */

static bool compare_device(orr_evidence_draft *draft, const char *text) {
    const orr_accelerator *wanted = draft->device;
    if (wanted == NULL) {
        return orr_name_equal(text, draft->device_text);
    }
    if (orr_name_equal(text, wanted->name) ||
        (wanted->title != NULL && orr_name_equal(text, wanted->title))) {
        return true;
    }
    orr_accelerator *known = NULL;
    orr_arena *scratch = orr_arena_new();
    bool same = orr_accelerator_find(scratch, text, &known, NULL) == ORR_OK &&
                strcmp(known->name, wanted->name) == 0;
    orr_arena_free(scratch);
    return same;
}

/* A table names few devices, often: what was compared is remembered. */
static bool is_device(orr_evidence_draft *draft, const char *text) {
    if (draft->device == NULL && draft->device_text == NULL) {
        orr_accelerator *known = NULL;
        draft->device_text = orr_arena_text(draft->arena, text);
        draft->device =
            orr_accelerator_find(draft->arena, text, &known, NULL) == ORR_OK ? known : NULL;
    }
    for (uint32_t i = 0; i < draft->known_count; i++) {
        if (strcmp(draft->known[i].text, text) == 0) {
            return draft->known[i].same;
        }
    }
    bool same = compare_device(draft, text);
    if (draft->known_count < sizeof draft->known / sizeof *draft->known) {
        draft->known[draft->known_count].text = orr_arena_text(draft->arena, text);
        draft->known[draft->known_count++].same = same;
    }
    return same;
}

/* Not stated is not another: kernels are measured without a framework. */
static bool is_software(const orr_evidence_draft *draft, const char *text) {
    const char *wanted = draft->want->software;
    if (wanted == NULL || text[0] == '\0' || orr_name_equal(text, wanted)) {
        return true;
    }
    orr_software *known = NULL;
    orr_arena *scratch = orr_arena_new();
    bool same = orr_software_find(scratch, text, &known, NULL) == ORR_OK &&
                strcmp(known->name, wanted) == 0;
    orr_arena_free(scratch);
    return same;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static orr_evidence_file *this_file(orr_evidence_draft *draft) {
    return &draft->set->file[draft->set->file_count - 1];
}

static void *grow(orr_arena *arena, void *old, uint32_t count, uint32_t *capacity, size_t bytes) {
    if (count < *capacity) {
        return old;
    }
    *capacity = *capacity == 0 ? 256 : 2 * *capacity;
    void *bigger = orr_arena_array(arena, *capacity, bytes);
    if (count > 0) {
        memcpy(bigger, old, count * bytes);
    }
    return bigger;
}

static void keep_step(orr_evidence_draft *draft, const orr_evidence_row *row) {
    draft->step = (orr_evidence_step *)grow(draft->arena, draft->step, draft->step_count,
                                            &draft->step_capacity, sizeof *draft->step);
    draft->step[draft->step_count++] = (orr_evidence_step){
        .plan = row->plan == NULL ? NULL : orr_tree_copy(draft->arena, row->plan),
        .time_s = row->time_us * 1e-6,
        .gpus = (uint32_t)row->gpus,
        .file = draft->set->file_count - 1};
}

/* Rows repeat what they state: the same text is kept once. */
static const char *kept_text(orr_evidence_draft *draft, const char *text) {
    const orr_evidence_file *file = this_file(draft);
    const char *const known[] = {file->device, file->software, draft->last_kept[0],
                                 draft->last_kept[1]};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] != NULL && strcmp(known[i], text) == 0) {
            return known[i];
        }
    }
    draft->last_kept[0] = draft->last_kept[1];
    draft->last_kept[1] = orr_arena_text(draft->arena, text);
    return draft->last_kept[1];
}

orr_status orr_evidence_take(orr_evidence_draft *draft, const orr_evidence_row *row, orr_err *err) {
    orr_evidence_file *file = this_file(draft);
    const char *device = row->device != NULL && row->device[0] ? row->device : file->device;
    const char *software =
        row->software != NULL && row->software[0] ? row->software : file->software;
    if (!(draft->want->classes & (uint32_t)orr_evidence_row_class(row))) {
        return ORR_OK;
    }
    bool own = is_device(draft, device), same = is_software(draft, software);
    if (!own && !(draft->want->accept & ORR_ACCEPT_DEVICE)) {
        file->other_device++;
        draft->last_device =
            draft->last_device == NULL ? orr_arena_text(draft->arena, device) : draft->last_device;
        return ORR_OK;
    }
    if (!same && !(draft->want->accept & ORR_ACCEPT_SOFTWARE)) {
        file->other_software++;
        draft->last_software = draft->last_software == NULL ? orr_arena_text(draft->arena, software)
                                                            : draft->last_software;
        return ORR_OK;
    }
    if (file->device[0] == '\0') {
        file->device = orr_arena_text(draft->arena, device);
    }
    file->foreign = file->foreign || !own || !same;
    if (row->op == ORR_ROW_STEP) {
        keep_step(draft, row);
        file->records++;
        return ORR_OK;
    }
    orr_evidence_record record;
    ORR_TRY(orr_evidence_row_record(row, &record, err));
    if (draft->count == ORR_EVIDENCE_MAX_RECORDS) {
        return orr_fail(err, ORR_E_LIMIT, "more than %d records of evidence",
                        ORR_EVIDENCE_MAX_RECORDS);
    }
    record.file = draft->set->file_count - 1;
    record.foreign = !own || !same;
    record.device = kept_text(draft, device);
    record.software = kept_text(draft, software);
    draft->record = (orr_evidence_record *)grow(draft->arena, draft->record, draft->count,
                                                &draft->capacity, sizeof *draft->record);
    draft->record[draft->count++] = record;
    file->records++;
    return ORR_OK;
}

/* ---- the tool's own files ------------------------------------------------------------------- */

static const char *hash_of(orr_arena *arena, const char *scheme, const orr_tree *content) {
    const char *text = orr_write_json(arena, content, false);
    return orr_arena_format(arena, "%s:%016llx", scheme,
                            (unsigned long long)orr_hash(text, strlen(text)));
}

static const char *records_hash(orr_arena *arena, const orr_tree *records) {
    return hash_of(arena, "xxh3", records);
}

const char *orr_evidence_hash(orr_arena *arena, const char *device, const char *software,
                              const orr_tree *records) {
    orr_tree *content = orr_tree_new_map(arena);
    orr_tree_put_text(arena, content, "device", device);
    orr_tree_put_text(arena, content, "software", software != NULL ? software : "");
    (void)orr_tree_put(arena, content, "records", orr_tree_copy(arena, records));
    return hash_of(arena, "identity", content);
}

static const char *device_name(const header *h) {
    bool map = orr_tree_kind_of(h->device) == ORR_TREE_MAP;
    return orr_tree_text(map ? orr_tree_get(h->device, "name") : h->device, "");
}

static orr_status check_hash(orr_arena *arena, const header *h, orr_span span, orr_err *err) {
    if (h->hash == NULL || h->hash[0] == '\0') {
        return ORR_OK;
    }
    bool whole = strncmp(h->hash, "xxh3:", 5) != 0;
    const char *own = whole ? orr_evidence_hash(arena, device_name(h), h->software, h->records)
                            : records_hash(arena, h->records);
    if (strcmp(own, h->hash) != 0) {
        orr_status status =
            orr_fail_at(err, ORR_E_CONFLICT, span,
                        "the %s the content hash %s, the file says %s: they were changed",
                        whole ? "device, software and records have" : "records have", own, h->hash);
        orr_hint(err, "if the change is yours, remove the line 'hash'");
        return status;
    }
    return ORR_OK;
}

static orr_status read_tree(orr_evidence_draft *draft, const orr_tree *tree, orr_err *err) {
    header h = {0};
    orr_arena *arena = draft->arena;
    ORR_TRY(orr_schema_read(&header_schema, arena, tree, &h, NULL, err));
    orr_span span = orr_tree_span(tree);
    if (strcmp(h.schema, "orrery.evidence/1") != 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, span, "schema is '%s', expected 'orrery.evidence/1'",
                           h.schema);
    }
    if (orr_tree_kind_of(h.records) != ORR_TREE_LIST) {
        return orr_fail_at(err, ORR_E_SCHEMA, span, "records must be a list");
    }
    ORR_TRY(check_hash(arena, &h, span, err));
    orr_evidence_file *file = this_file(draft);
    file->device = orr_arena_text(arena, device_name(&h));
    file->detail = orr_arena_text(arena, orr_tree_text(orr_tree_get(h.device, "detail"), ""));
    if (file->device[0] == '\0') {
        return orr_fail_at(err, ORR_E_SCHEMA, span, "the file does not name its device");
    }
    file->software = h.software == NULL ? "" : orr_arena_text(arena, h.software);
    file->source = h.source == NULL ? "" : orr_arena_text(arena, h.source);
    file->date = h.date == NULL ? "" : orr_arena_text(arena, h.date);
    file->missing = (uint32_t)orr_tree_size(h.missing);
    file->gaps = h.missing == NULL ? NULL : orr_tree_copy(arena, h.missing);
    for (size_t i = 0; i < orr_tree_size(h.records); i++) {
        const orr_tree *one = orr_tree_at(h.records, i);
        orr_evidence_row row;
        memset(&row, 0, sizeof row);
        ORR_TRY(orr_schema_read(&orr_evidence_row_schema, arena, one, &row, NULL, err));
        orr_err problem = {0};
        if (orr_evidence_take(draft, &row, &problem) != ORR_OK) {
            return orr_fail_at(err, problem.status, orr_tree_span(one), "%s", problem.message);
        }
    }
    return ORR_OK;
}

/* ---- a set ---------------------------------------------------------------------------------- */

static orr_status add_text(orr_evidence_draft *draft, const char *name, const char *text,
                           size_t length, orr_err *err) {
    if (draft->set->file_count == ORR_EVIDENCE_MAX_FILES) {
        return orr_fail(err, ORR_E_LIMIT, "more than %d files of evidence", ORR_EVIDENCE_MAX_FILES);
    }
    orr_evidence_file *file = &draft->set->file[draft->set->file_count++];
    *file = (orr_evidence_file){.path = orr_arena_text(draft->arena, name)};
    file->device = file->detail = file->software = file->source = file->date = "";
    size_t at = 0;
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r')) {
        at++;
    }
    if (at < length && text[at] == '{') {
        orr_tree *tree = NULL;
        ORR_TRY(orr_json_read(draft->arena, name, text, length, &tree, err));
        return read_tree(draft, tree, err);
    }
    if (orr_evidence_is_sqlite(text, length)) {
        orr_tree *own = NULL;
        char *csv = NULL;
        ORR_TRY(orr_evidence_read_sqlite(draft->arena, text, length, &own, &csv, err));
        return own != NULL ? read_tree(draft, own, err)
                           : orr_evidence_read_csv(draft, file->path, csv, strlen(csv), err);
    }
    orr_observation seen;
    ORR_TRY(orr_observe_bytes(draft->arena, name, text, length, &seen, err));
    if (seen.kind == ORR_OBSERVED_COLLECTIVES) { /* a table of nccl-tests */
        return read_tree(draft, seen.content, err);
    }
    return orr_evidence_read_csv(draft, file->path, text, length, err);
}

static orr_status check_any(const orr_evidence_draft *draft, orr_err *err) {
    if (draft->count > 0 || draft->step_count > 0) {
        return ORR_OK;
    }
    if (draft->last_device != NULL && draft->want->device == NULL) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "the evidence holds no record of '%s', whose rows come first",
                        draft->device_text);
    }
    if (draft->last_device != NULL) {
        orr_status status =
            orr_fail(err, ORR_E_CONFLICT, "the evidence was measured on '%s', the plan runs on %s",
                     draft->last_device, draft->want->device->name);
        orr_hint(err, "--evidence-accept device takes it all the same");
        return status;
    }
    if (draft->last_software != NULL) {
        orr_status status = orr_fail(err, ORR_E_CONFLICT,
                                     "the evidence was measured under '%s', the plan runs under %s",
                                     draft->last_software, draft->want->software);
        orr_hint(err, "--evidence-accept software takes it all the same");
        return status;
    }
    for (uint32_t i = 0; i < draft->set->file_count; i++) {
        const orr_evidence_file *file = &draft->set->file[i];
        const orr_tree *gap = orr_tree_at(file->gaps, 0);
        if (file->missing > 0) {
            return orr_fail(
                err, ORR_E_CONFLICT, "%s holds no record: %u could not be measured, first %s: %s",
                file->path, file->missing, orr_tree_text(orr_tree_get(gap, "what"), "?"),
                orr_tree_text(orr_tree_get(gap, "why"), "?"));
        }
    }
    orr_status status =
        orr_fail(err, ORR_E_CONFLICT, "the evidence holds no record that a plan can use");
    orr_hint(err, "a record states a shape of docs/evidence.md and a time above 0");
    return status;
}

static orr_evidence_draft new_draft(orr_arena *arena, const orr_evidence_want *want) {
    return (orr_evidence_draft){
        .arena = arena, .want = want, .device = want->device, .set = ORR_NEW(arena, orr_evidence)};
}

orr_status orr_evidence_parse(orr_arena *arena, const char *name, const char *text, size_t length,
                              const orr_evidence_want *want, orr_evidence **out, orr_err *err) {
    orr_evidence_draft draft = new_draft(arena, want);
    ORR_TRY(add_text(&draft, name, text, length, err));
    ORR_TRY(check_any(&draft, err));
    orr_evidence_settle(&draft);
    *out = draft.set;
    return ORR_OK;
}

orr_status orr_evidence_read(orr_arena *arena, const char *paths, const orr_evidence_want *want,
                             orr_evidence **out, orr_err *err) {
    orr_evidence_draft draft = new_draft(arena, want);
    for (const char *at = paths; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length > 0) {
            const char *path = orr_arena_copy(arena, at, length);
            for (uint32_t i = 0; i < draft.set->file_count; i++) {
                if (strcmp(draft.set->file[i].path, path) == 0) {
                    return orr_fail(err, ORR_E_USAGE, "the evidence names %s twice", path);
                }
            }
            char *text = NULL;
            size_t bytes = 0;
            ORR_TRY(orr_file_read(arena, path, &text, &bytes, err));
            ORR_TRY(add_text(&draft, path, text, bytes, err));
        }
        at += length + (at[length] == ',');
    }
    ORR_TRY(check_any(&draft, err));
    orr_evidence_settle(&draft);
    *out = draft.set;
    return ORR_OK;
}
