#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "cluster/cluster.h"
#include "doc/catalog.h"
#include "doc/doc.h"

static const orr_catalog catalog = {"fabrics", "fabric"};

typedef struct sheet {
    orr_fabric f;
    const char *name, *like, *notes;
} sheet;

#define AT(member_) offsetof(sheet, member_)
#define SHARE(name_, member_, fallback_, doc_)                                                     \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = AT(member_),                                                                        \
     .min = 0.001,                                                                                 \
     .max = 2,                                                                                     \
     .fallback = fallback_,                                                                        \
     .doc = doc_}
#define SECONDS(name_, member_, fallback_, doc_)                                                   \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(member_),                                                                        \
     .min = 0,                                                                                     \
     .max = 10,                                                                                    \
     .unit = "s",                                                                                  \
     .fallback = fallback_,                                                                        \
     .doc = doc_}
#define TEXT(name_, member_, doc_)                                                                 \
    {.name = name_, .type = ORR_FIELD_TEXT, .offset = AT(member_), .fallback = "", .doc = doc_}

static const orr_field fields[] = {
    TEXT("name", name, "Catalog name."),
    TEXT("like", like, "Fabric that this one starts from."),
    TEXT("source", f.source, "Where the figures come from."),
    TEXT("notes", notes, "Remarks."),
    SHARE("efficiency_frac", f.efficiency_frac, "0.85",
          "Share of the NIC line rate that large collectives reach."),
    SECONDS("base_s", f.base_s, "20us", "Start of a collective that leaves the scale-up domain."),
    SECONDS("hop_s", f.hop_s, "12us", "Each further domain in a collective."),
    SECONDS("peer_hop_s", f.peer_hop_s, "2us", "Each further rank inside a domain."),
    SECONDS("tree_hop_s", f.tree_hop_s, "0",
            "Each level of a tree of domains, up or down; 0: 1.5 times hop_s."),
    {.name = "ring_ranks",
     .type = ORR_FIELD_REAL,
     .offset = AT(f.ring_ranks),
     .max = 1e6,
     .fallback = "0",
     .doc = "Ranks of a ring whose stalls halve its bandwidth; 0: length costs none."},
    SHARE("p2p_efficiency_frac", f.p2p_efficiency_frac, "0.75",
          "Share of the NIC line rate that a send reaches."),
    SECONDS("p2p_base_s", f.p2p_base_s, "19us", "Start of a send."),
    {.name = "sharp",
     .type = ORR_FIELD_BOOL,
     .offset = AT(f.sharp),
     .fallback = "no",
     .doc = "Switches add up what all-reduces send through them (SHARP)."},
    {.name = "assumed",
     .type = ORR_FIELD_BOOL,
     .offset = AT(f.assumed),
     .fallback = "no",
     .doc = "Without measurements of its own: intervals widen."},
};
static const orr_schema schema = {"fabric file", fields, sizeof fields / sizeof *fields, false};

orr_status orr_fabric_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                           orr_fabric **out, orr_err *err) {
    const orr_tree *map = NULL;
    ORR_TRY(orr_catalog_derive(arena, &catalog, file, &map, err));
    sheet s;
    memset(&s, 0, sizeof s);
    ORR_TRY(orr_schema_read(&schema, arena, map, &s, NULL, err));
    orr_fabric *fabric = ORR_NEW(arena, orr_fabric);
    *fabric = s.f;
    fabric->name = s.name != NULL ? s.name : fallback_name != NULL ? fallback_name : "fabric";
    fabric->source = fabric->source != NULL ? fabric->source : "given";
    *out = fabric;
    return ORR_OK;
}

orr_status orr_fabric_find(orr_arena *arena, const char *name, orr_fabric **out, orr_err *err) {
    orr_tree *file = NULL;
    const char *stem = NULL;
    ORR_TRY(orr_catalog_find(arena, &catalog, name, &file, &stem, err));
    return orr_fabric_read(arena, file, stem, out, err);
}

orr_tree *orr_fabric_catalog(orr_arena *arena) {
    return orr_catalog_names(arena, &catalog);
}

orr_tree *orr_fabric_write(orr_arena *arena, const orr_fabric *fabric) {
    sheet s;
    memset(&s, 0, sizeof s);
    s.f = *fabric;
    s.name = fabric->name;
    return orr_schema_write(&schema, arena, &s);
}

_Static_assert(offsetof(sheet, f) == 0, "numbers of a sheet lie where those of a fabric do");

double *orr_fabric_number(orr_fabric *fabric, const char *name) {
    return orr_schema_number(&schema, fabric, name);
}
