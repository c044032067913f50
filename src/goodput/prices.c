/* Reading prices files, and a result as a tree. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/catalog.h"
#include "doc/doc.h"
#include "goodput/goodput.h"

static const orr_catalog catalog = {"prices", "prices file"};
static const char base_name[] = "assumed";

typedef struct sheet {
    orr_prices p;
    const char *name, *title, *notes;
} sheet;

#define AT(member_) offsetof(sheet, p.member_)
#define TEXT(name_, member_, doc_)                                                                 \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(sheet, member_),                                                           \
     .fallback = "",                                                                               \
     .doc = doc_}
#define NUMBER(member_, max_, unit_, doc_)                                                         \
    {.name = #member_,                                                                             \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(member_),                                                                        \
     .max = max_,                                                                                  \
     .unit = unit_,                                                                                \
     .fallback = "0",                                                                              \
     .doc = doc_}

enum { FIRST_FIGURE = 4 };
static const orr_field fields[] = {
    TEXT("name", name, "Name of the file."),
    TEXT("title", title, "What it describes."),
    TEXT("notes", notes, "Remarks."),
    TEXT("currency", p.currency, "Of the prices, such as USD."),
    NUMBER(gpu_hour, 1e6, NULL,
           "Price of an accelerator and hour; a number, or a map by accelerator."),
    NUMBER(kwh, 1e6, NULL, "Price of a kilowatt-hour, where it is paid apart."),
    NUMBER(carbon_kg_per_kwh, 100, "kg", "Of CO2 for a kilowatt-hour."),
    NUMBER(
        gpu_w, 1e5, "W",
        "Mean draw of an accelerator, a number or a map; default: its data sheet's board power."),
    NUMBER(host_w, 1e6, "W", "Draw of a host besides its accelerators."),
    {.name = "pue",
     .type = ORR_FIELD_REAL,
     .offset = AT(pue),
     .min = 1,
     .max = 10,
     .fallback = "1",
     .doc = "Power of the building over that of its machines."},
    NUMBER(gpu_mtbf_s, 1e12, "s",
           "Mean time between failures of an accelerator that stop the run, a number or a map; 0: "
           "they do not fail."),
    NUMBER(host_mtbf_s, 1e12, "s", "The same for a host, without its accelerators."),
    NUMBER(restart_s, 1e7, "s", "From a failure to the first new step."),
    NUMBER(storage_Bps, 1e15, "bytes/s",
           "What a host writes of a checkpoint while training waits."),
    NUMBER(checkpoint_s, 1e6, "s",
           "Training waits so long for a checkpoint; default: its bytes over storage_Bps."),
    NUMBER(checkpoint_every_s, 1e9, "s", "Progress between checkpoints; default: the best."),
    {.name = "sources",
     .type = ORR_FIELD_TREE,
     .offset = AT(sources),
     .fallback = "",
     .doc = "Map from a figure to where it was read."},
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };
static const orr_schema schema = {"prices file", fields, FIELD_COUNT, false};

/* Figures that may go by accelerator. */
static bool is_by_device(const char *key) {
    return strcmp(key, "gpu_hour") == 0 || strcmp(key, "gpu_w") == 0 ||
           strcmp(key, "gpu_mtbf_s") == 0;
}

static const orr_tree *of_device(const orr_tree *map, const char *device) {
    for (size_t i = 0; device != NULL && i < orr_tree_size(map); i++) {
        if (orr_name_equal(orr_tree_key(map, i), device)) {
            return orr_tree_at(map, i);
        }
    }
    return orr_tree_get(map, "default");
}

static orr_tree *elsewhere_of(orr_arena *arena, const orr_tree *file, const orr_tree *stated) {
    orr_tree *list = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const char *key = orr_tree_key(file, i);
        if (is_by_device(key) && orr_tree_get(stated, key) == NULL) {
            (void)orr_tree_push(arena, list, orr_tree_new_text(arena, key));
        }
    }
    return list;
}

/* The file's entries with the map of each figure replaced by the device's; an entry that the device
 * has none of is left out. */
static orr_tree *flatten(orr_arena *arena, const orr_tree *file, const char *device) {
    orr_tree *flat = orr_tree_new_map(arena);
    orr_tree_set_span(flat, orr_tree_span(file));
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const char *key = orr_tree_key(file, i);
        const orr_tree *node = orr_tree_at(file, i);
        if (is_by_device(key) && orr_tree_kind_of(node) == ORR_TREE_MAP) {
            node = of_device(node, device);
        }
        if (node != NULL) {
            orr_tree *copy = orr_tree_copy(arena, node);
            orr_tree_set_span(copy, orr_tree_span(node));
            (void)orr_tree_put(arena, flat, key, copy);
        }
    }
    return flat;
}

/* Entries of the assumptions that the file does not state. */
static void fill(orr_arena *arena, orr_tree *into, const orr_tree *base) {
    for (size_t i = 0; i < orr_tree_size(base); i++) {
        const char *key = orr_tree_key(base, i);
        if (orr_tree_get(into, key) == NULL && strcmp(key, "title") != 0) {
            (void)orr_tree_put(arena, into, key, orr_tree_copy(arena, orr_tree_at(base, i)));
        }
    }
}

static orr_tree *join_sources(orr_arena *arena, const orr_tree *own, const orr_tree *base,
                              const orr_tree *stated) {
    orr_tree *all = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(own); i++) {
        orr_tree_put_text(arena, all, orr_tree_key(own, i),
                          orr_tree_text(orr_tree_at(own, i), "stated"));
    }
    for (size_t i = 0; i < orr_tree_size(base); i++) {
        const char *key = orr_tree_key(base, i);
        if (orr_tree_get(stated, key) == NULL && orr_tree_get(all, key) == NULL) {
            orr_tree_put_text(arena, all, key, orr_tree_text(orr_tree_at(base, i), ""));
        }
    }
    return all;
}

orr_status orr_prices_read(orr_arena *arena, const orr_tree *file, const char *device,
                           orr_prices *out, orr_err *err) {
    orr_tree *base = NULL;
    const char *stem = NULL;
    ORR_TRY(orr_catalog_find(arena, &catalog, base_name, &base, &stem, err));
    orr_tree_kind kind = orr_tree_kind_of(file);
    if (kind != ORR_TREE_MAP && kind != ORR_TREE_NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(file), "a prices file is a map");
    }
    orr_tree *stated = flatten(arena, file, device);
    const orr_tree *own_sources = orr_tree_get(stated, "sources");
    if (own_sources != NULL && orr_tree_kind_of(own_sources) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(own_sources),
                           "\"sources\" is a map from a figure to where it was read");
    }
    orr_tree *sources = join_sources(arena, own_sources, orr_tree_get(base, "sources"), stated);
    orr_tree *all = flatten(arena, file, device);
    fill(arena, all, base);
    sheet s;
    memset(&s, 0, sizeof s);
    ORR_TRY(orr_schema_read(&schema, arena, all, &s, NULL, err));
    *out = s.p;
    out->name = s.name != NULL ? s.name : kind == ORR_TREE_MAP ? "given" : base_name;
    out->currency = s.p.currency != NULL ? s.p.currency : "";
    out->sources = sources;
    out->stated = stated;
    out->elsewhere = elsewhere_of(arena, file, stated);
    return ORR_OK;
}

/* Text that is no name of a file: a map in JSON or YAML. */
static bool spells_a_map(const char *text) {
    return text[0] == '{' || strchr(text, ':') != NULL;
}

orr_status orr_prices_find(orr_arena *arena, const orr_tree *given, const char *device,
                           orr_prices *out, orr_err *err) {
    orr_tree *file = NULL;
    const char *text = orr_tree_text(given, NULL), *stem = NULL;
    if (text == NULL) {
        return orr_prices_read(arena, given, device, out, err);
    }
    if (spells_a_map(text)) {
        ORR_TRY(orr_yaml_read(arena, "prices", text, strlen(text), &file, err));
    } else {
        ORR_TRY(orr_catalog_find(arena, &catalog, text, &file, &stem, err));
    }
    if (orr_tree_kind_of(file) == ORR_TREE_NULL ||
        (orr_tree_kind_of(file) == ORR_TREE_MAP && orr_tree_size(file) == 0)) {
        orr_status status = orr_fail(err, ORR_E_SCHEMA, "prices '%.80s' state nothing", text);
        orr_hint(err, "for example --prices '{gpu_hour: 2.5}', or a file (docs/goodput.md)");
        return status;
    }
    ORR_TRY(orr_prices_read(arena, file, device, out, err));
    if (stem != NULL && strcmp(out->name, "given") == 0) {
        out->name = stem;
    }
    return ORR_OK;
}

orr_tree *orr_prices_write(orr_arena *arena, const orr_prices *prices) {
    orr_tree *list = orr_tree_new_list(arena);
    sheet s = {.p = *prices};
    for (size_t i = FIRST_FIGURE; i + 1 < FIELD_COUNT; i++) {
        const char *name = fields[i].name;
        double value = *(const double *)(const void *)((const char *)&s + fields[i].offset);
        bool stated = orr_tree_get(prices->stated, name) != NULL;
        if (value == 0 && !stated) {
            continue;
        }
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "name", name);
        orr_tree_put_real(arena, one, "value", value);
        orr_tree_put_bool(arena, one, "stated", stated);
        const char *source = orr_tree_text(orr_tree_get(prices->sources, name), NULL);
        orr_tree_put_text(arena, one, "source",
                          source != NULL ? source
                          : stated       ? "stated"
                                         : "none: assumed");
    }
    return list;
}
