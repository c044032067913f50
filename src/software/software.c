/* Reading profiles: values apart from their evidence, and what counts as fitted. */
#include "software/software.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/catalog.h"
#include "software/software_int.h"

static const orr_catalog catalog = {"software", "software profile"};

static const char *const evidence_words[] = {"code", "documentation", "measured", "fitted",
                                             "assumed"};
enum { EVIDENCE_WORDS = 5, FIRST_FITTED = 3 };

/* Index of the evidence word, EVIDENCE_WORDS when none is given. */
static orr_status read_evidence(const orr_tree *wrapped, size_t *index, orr_err *err) {
    static const char *const entries[] = {"value", "evidence", "note"};
    *index = EVIDENCE_WORDS;
    for (size_t i = 0; i < orr_tree_size(wrapped); i++) {
        const char *key = orr_tree_key(wrapped, i);
        bool known = false;
        for (size_t k = 0; k < 3; k++) {
            known = known || strcmp(key, entries[k]) == 0;
        }
        if (!known) {
            return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(orr_tree_at(wrapped, i)),
                               "a value has no entry \"%.60s\", only value, evidence and note",
                               key);
        }
    }
    const orr_tree *node = orr_tree_get(wrapped, "evidence");
    if (node == NULL) {
        return ORR_OK;
    }
    const char *text = orr_tree_text(node, "");
    for (size_t i = 0; i < EVIDENCE_WORDS; i++) {
        if (strcmp(text, evidence_words[i]) == 0) {
            *index = i;
            return ORR_OK;
        }
    }
    return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                       "\"%.60s\" is no evidence: expected code, documentation, measured, fitted "
                       "or assumed",
                       text);
}

/* One section with wrapped values taken out of their maps; evidence is gathered on the way. */
static orr_status unwrap(orr_arena *arena, const orr_tree *section, bool numbers, orr_tree **plain,
                         orr_software *software, orr_tree *evidence, orr_err *err) {
    *plain = orr_tree_new_map(arena);
    orr_tree_set_span(*plain, orr_tree_span(section));
    for (size_t i = 0; i < orr_tree_size(section); i++) {
        const char *key = orr_tree_key(section, i);
        const orr_tree *node = orr_tree_at(section, i);
        const orr_tree *value = node;
        size_t index = EVIDENCE_WORDS;
        orr_tree *stated = NULL;
        if (orr_tree_kind_of(node) == ORR_TREE_MAP) {
            ORR_TRY(read_evidence(node, &index, err));
            value = orr_tree_get(node, "value");
            stated = orr_tree_copy(arena, node);
        } else {
            stated = orr_tree_new_map(arena);
            orr_tree_put(arena, stated, "value", orr_tree_copy(arena, node));
        }
        orr_tree_put(arena, evidence, key, stated);
        orr_tree *copy = orr_tree_copy(arena, value);
        orr_tree_set_span(copy, orr_tree_span(node));
        orr_tree_put(arena, *plain, key, copy);
        software->fitted_parameters += numbers && index >= FIRST_FITTED;
    }
    return ORR_OK;
}

/* The head holds the sections too; its own table must not see them. */
static orr_tree *take_head(orr_arena *arena, const orr_tree *map) {
    orr_tree *head = orr_tree_new_map(arena);
    orr_tree_set_span(head, orr_tree_span(map));
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const char *key = orr_tree_key(map, i);
        bool section = strcmp(key, "like") == 0 || strcmp(key, "notes") == 0;
        for (size_t s = 1; s < ORR_SECTION_COUNT; s++) {
            section = section || strcmp(key, orr_software_section_names[s]) == 0;
        }
        if (!section) {
            orr_tree *copy = orr_tree_copy(arena, orr_tree_at(map, i));
            orr_tree_set_span(copy, orr_tree_span(orr_tree_at(map, i)));
            orr_tree_put(arena, head, key, copy);
        }
    }
    return head;
}

static orr_status read_section(orr_arena *arena, const orr_tree *map, size_t s,
                               orr_software *software, orr_tree *evidence, orr_err *err) {
    const char *name = orr_software_section_names[s];
    const orr_tree *section = orr_tree_get(map, name);
    orr_tree_kind kind = orr_tree_kind_of(section);
    if (kind != ORR_TREE_MAP && kind != ORR_TREE_NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(section),
                           "\"%s\" must be a map of fields", name);
    }
    orr_tree *plain = NULL;
    ORR_TRY(unwrap(arena, section, s >= ORR_SECTION_TIME, &plain, software, evidence, err));
    return orr_schema_read(&orr_software_sections[s], arena, plain, software, NULL, err);
}

orr_status orr_software_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                             orr_software **out, orr_err *err) {
    const orr_tree *map = NULL;
    if (orr_tree_kind_of(file) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(file), "a software profile is a map");
    }
    ORR_TRY(orr_catalog_derive(arena, &catalog, file, &map, err));
    orr_software *software = ORR_NEW(arena, orr_software);
    orr_tree *evidence = orr_tree_new_map(arena);
    ORR_TRY(orr_schema_read(&orr_software_sections[ORR_SECTION_HEAD], arena, take_head(arena, map),
                            software, NULL, err));
    for (size_t s = 1; s < ORR_SECTION_COUNT; s++) {
        ORR_TRY(read_section(arena, map, s, software, evidence, err));
    }
    software->name = software->name != NULL  ? software->name
                     : fallback_name != NULL ? fallback_name
                                             : "software";
    software->source = software->source != NULL ? software->source : "given";
    software->evidence = evidence;
    *out = software;
    return ORR_OK;
}

orr_status orr_software_find(orr_arena *arena, const char *name, orr_software **out, orr_err *err) {
    orr_tree *file = NULL;
    const char *stem = NULL;
    ORR_TRY(orr_catalog_find(arena, &catalog, name, &file, &stem, err));
    return orr_software_read(arena, file, stem, out, err);
}

orr_tree *orr_software_catalog(orr_arena *arena) {
    return orr_catalog_names(arena, &catalog);
}

/* What the profile states, with its evidence, in the form that the reader takes. Fields that are
 * not stated hold the defaults of the tables. */
orr_tree *orr_software_write(orr_arena *arena, const orr_software *software) {
    orr_tree *out = orr_schema_write(&orr_software_sections[ORR_SECTION_HEAD], arena, software);
    for (size_t s = 1; s < ORR_SECTION_COUNT; s++) {
        const orr_tree *plain = orr_schema_write(&orr_software_sections[s], arena, software);
        orr_tree *section =
            orr_tree_put(arena, out, orr_software_section_names[s], orr_tree_new_map(arena));
        for (size_t i = 0; i < orr_tree_size(plain); i++) {
            const char *key = orr_tree_key(plain, i);
            const orr_tree *stated = orr_tree_get(software->evidence, key);
            if (stated != NULL) {
                orr_tree *entry = orr_tree_put(arena, section, key, orr_tree_copy(arena, stated));
                orr_tree_put(arena, entry, "value", orr_tree_copy(arena, orr_tree_at(plain, i)));
            }
        }
    }
    return out;
}

double *orr_software_number(orr_software *software, const char *name) {
    for (size_t s = ORR_SECTION_TIME; s < ORR_SECTION_COUNT; s++) {
        double *number = orr_schema_number(&orr_software_sections[s], software, name);
        if (number != NULL) {
            return number;
        }
    }
    return NULL;
}

bool orr_software_is_free(const orr_software *software, const char *name, double *value) {
    const orr_schema *section = &orr_software_sections[ORR_SECTION_TIME];
    const char *word =
        orr_tree_text(orr_tree_get(orr_tree_get(software->evidence, name), "evidence"), "code");
    bool backed = true;
    for (size_t i = FIRST_FITTED; i < EVIDENCE_WORDS; i++) {
        backed = backed && strcmp(word, evidence_words[i]) != 0;
    }
    orr_software copy = *software;
    const double *number = orr_schema_number(section, &copy, name);
    if (backed || number == NULL || strncmp(name, "interval_", 9) == 0) {
        return false;
    }
    *value = *number;
    for (size_t i = 0; i < section->count; i++) {
        double neutral = 0;
        if (strcmp(section->fields[i].name, name) == 0 &&
            orr_parse_real(section->fields[i].fallback, &neutral)) {
            return *value < neutral || *value > neutral;
        }
    }
    return true;
}
