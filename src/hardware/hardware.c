#include "hardware/hardware.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "doc/catalog.h"
#include "doc/doc.h"

static const orr_catalog catalog = {"hardware", "accelerator"};

static const char *const dtype_words[] = {ORR_DTYPE_WORDS, NULL};
static const char *const vendor_words[] = {"nvidia", "amd", "other", NULL};
static const char *const arch_words[] = {ORR_ARCH_WORDS, NULL};
static const char *const topology_words[] = {ORR_TOPOLOGY_WORDS, NULL};
_Static_assert(sizeof dtype_words / sizeof *dtype_words == ORR_DTYPE_COUNT + 1, "one name a dtype");
_Static_assert(sizeof arch_words / sizeof *arch_words == ORR_ARCH_COUNT + 1, "one an architecture");

const char *orr_dtype_name(orr_dtype dtype) {
    return (unsigned)dtype < ORR_DTYPE_COUNT ? dtype_words[dtype] : "unknown";
}

double orr_dtype_bytes(orr_dtype dtype) {
    static const double bytes[ORR_DTYPE_COUNT] = {2, 2, 4, 1, 1, 1, 0.5, 1};
    return (unsigned)dtype < ORR_DTYPE_COUNT ? bytes[dtype] : 0;
}

const char *orr_arch_name(orr_arch arch) {
    return (unsigned)arch < ORR_ARCH_COUNT ? arch_words[arch] : "unknown";
}

const char *orr_topology_name(orr_topology topology) {
    return (unsigned)topology <= ORR_HOST ? topology_words[topology] : "unknown";
}

/* ---- table ---------------------------------------------------------------------------------- */

typedef struct sheet {
    orr_accelerator a;
    const char *name, *like, *notes;
    const orr_tree *peak, *sources;
} sheet;

#define AT(member_) offsetof(sheet, member_)
#define QUANTITY(name_, member_, min_, max_, unit_, doc_)                                          \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = AT(member_),                                                                        \
     .min = min_,                                                                                  \
     .max = max_,                                                                                  \
     .unit = unit_,                                                                                \
     .fallback = "",                                                                               \
     .doc = doc_}
#define WORD(name_, member_, values_, fallback_, doc_)                                             \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_ENUM,                                                                       \
     .offset = AT(member_),                                                                        \
     .values = values_,                                                                            \
     .fallback = fallback_,                                                                        \
     .doc = doc_}
#define TEXT(name_, member_, doc_)                                                                 \
    {.name = name_, .type = ORR_FIELD_TEXT, .offset = AT(member_), .fallback = "", .doc = doc_}

static const orr_field fields[] = {
    TEXT("name", name, "Catalog name."),
    TEXT("title", a.title, "Full name of the part."),
    TEXT("like", like, "Accelerator that this one starts from."),
    TEXT("notes", notes, "Remarks."),
    WORD("vendor", a.vendor, vendor_words, "other", "Vendor."),
    WORD("arch", a.arch, arch_words, "other", "Architecture, which kernel constants belong to."),
    {.name = "units",
     .type = ORR_FIELD_U32,
     .offset = AT(a.units),
     .min = 1,
     .max = 1 << 20,
     .doc = "Streaming multiprocessors, compute units or cores."},
    QUANTITY("clock_hz", a.clock_hz, 0, 1e11, "Hz", "Boost clock; 0 where it is not published."),
    {.name = "peak",
     .type = ORR_FIELD_TREE,
     .offset = AT(peak),
     .doc = "Dense peak per number format, flop/s."},
    {.name = "hbm_bytes",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(a.hbm_bytes),
     .min = 1e8,
     .max = 1e15,
     .unit = "bytes",
     .doc = "Memory as the vendor states it."},
    QUANTITY("usable_bytes", a.usable_bytes, 0, 1e15, "bytes",
             "Memory that a program sees; 98 % of hbm_bytes, as assumed, when not given."),
    {.name = "hbm_Bps",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(a.hbm_Bps),
     .min = 1e9,
     .max = 1e16,
     .unit = "bytes/s",
     .doc = "Memory bandwidth."},
    QUANTITY("l2_bytes", a.l2_bytes, 0, 1e13, "bytes", "Last cache shared by all units."),
    QUANTITY("tdp_w", a.tdp_w, 0, 1e6, "W", "Power limit."),
    {.name = "exp_per_clock",
     .type = ORR_FIELD_U32,
     .offset = AT(a.exp_per_clock),
     .min = 1,
     .max = 1 << 16,
     .fallback = "16",
     .doc = "Exponentials that a unit does in a clock, which bound the softmax of attention."},
    WORD("topology", a.topology, topology_words, "switched", "Shape of the scale-up links."),
    {.name = "link_Bps",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(a.link_Bps),
     .min = 1e6,
     .max = 1e15,
     .unit = "bytes/s",
     .doc = "All scale-up links of one accelerator, one direction."},
    QUANTITY("peer_Bps", a.peer_Bps, 0, 1e15, "bytes/s",
             "To one peer of the scale-up domain, one direction; link_Bps when not given."),
    {.name = "nic_Bps",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(a.nic_Bps),
     .min = 1e6,
     .max = 1e13,
     .unit = "bytes/s",
     .doc = "Network, one direction, as usually built."},
    {.name = "domain",
     .type = ORR_FIELD_U32,
     .offset = AT(a.domain),
     .min = 1,
     .max = 1 << 20,
     .fallback = "8",
     .doc = "Accelerators of a scale-up domain, as usually built."},
    {.name = "node",
     .type = ORR_FIELD_U32,
     .offset = AT(a.node),
     .min = 1,
     .max = 1 << 20,
     .fallback = "8",
     .doc = "Accelerators of a host, as usually built."},
    {.name = "assumed",
     .type = ORR_FIELD_BOOL,
     .offset = AT(a.assumed),
     .fallback = "no",
     .doc = "Hypothetical, or without evidence: intervals widen."},
    {.name = "sources",
     .type = ORR_FIELD_TREE,
     .offset = AT(sources),
     .fallback = "",
     .doc = "Where each figure was read: a text, or a map from field to text."},
};
static const orr_schema schema = {"hardware file", fields, sizeof fields / sizeof *fields, false};

#define PEAK(index_, name_)                                                                        \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = (index_) * sizeof(double),                                                          \
     .max = 1e19,                                                                                  \
     .fallback = "0",                                                                              \
     .unit = "flop/s",                                                                             \
     .doc = "Dense peak; 0: not supported."}
static const orr_field peak_fields[] = {
    PEAK(ORR_BF16, "bf16"),   PEAK(ORR_FP16, "fp16"),   PEAK(ORR_FP32, "fp32"),
    PEAK(ORR_FP8, "fp8"),     PEAK(ORR_MXFP8, "mxfp8"), PEAK(ORR_FP8_BLOCK, "fp8_block"),
    PEAK(ORR_NVFP4, "nvfp4"), PEAK(ORR_INT8, "int8"),
};
static const orr_schema peak_schema = {"peak of the hardware file", peak_fields,
                                       sizeof peak_fields / sizeof *peak_fields, false};

/* ---- reading -------------------------------------------------------------------------------- */

/* All sources in one line, for those who want only that. */
static const char *join_sources(orr_arena *arena, const orr_tree *sources) {
    if (orr_tree_kind_of(sources) != ORR_TREE_MAP) {
        return orr_tree_text(sources, "");
    }
    orr_text text = orr_text_new(arena, 4096);
    for (size_t i = 0; i < orr_tree_size(sources); i++) {
        orr_text_format(&text, "%s%s: %s", i == 0 ? "" : "; ", orr_tree_key(sources, i),
                        orr_tree_text(orr_tree_at(sources, i), ""));
    }
    return orr_text_done(&text);
}

static orr_status check(const orr_accelerator *a, orr_span span, orr_err *err) {
    if (a->peak_flops[ORR_BF16] <= 0 && a->peak_flops[ORR_FP16] <= 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, span,
                           "the hardware file states neither a bf16 nor an fp16 peak");
    }
    if (a->usable_bytes > a->hbm_bytes * 1.001) {
        return orr_fail_at(err, ORR_E_CONFLICT, span,
                           "usable_bytes is %.4g, more than the %.4g bytes of hbm_bytes",
                           a->usable_bytes, a->hbm_bytes);
    }
    if (a->peer_Bps > a->link_Bps * 1.001) {
        return orr_fail_at(err, ORR_E_CONFLICT, span,
                           "peer_Bps is %.4g, more than the %.4g bytes/s of all links", a->peer_Bps,
                           a->link_Bps);
    }
    return ORR_OK;
}

orr_status orr_accelerator_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                                orr_accelerator **out, orr_err *err) {
    const orr_tree *map = NULL;
    ORR_TRY(orr_catalog_derive(arena, &catalog, file, &map, err));
    sheet s;
    memset(&s, 0, sizeof s);
    ORR_TRY(orr_schema_read(&schema, arena, map, &s, NULL, err));
    ORR_TRY(orr_schema_read(&peak_schema, arena, s.peak, s.a.peak_flops, NULL, err));
    orr_accelerator *a = ORR_NEW(arena, orr_accelerator);
    *a = s.a;
    a->name = s.name != NULL ? s.name : fallback_name != NULL ? fallback_name : "accelerator";
    a->title = a->title != NULL ? a->title : a->name;
    a->like = orr_tree_text(orr_tree_get(file, "like"), NULL);
    a->sources = s.sources;
    a->source = join_sources(arena, s.sources);
    a->peer_Bps = a->peer_Bps > 0 ? a->peer_Bps : a->link_Bps;
    if (a->usable_bytes <= 0) {
        a->usable_bytes = 0.98 * a->hbm_bytes;
    }
    ORR_TRY(check(a, orr_tree_span(map), err));
    *out = a;
    return ORR_OK;
}

/* Past a word that names a maker or a brand, as drivers put before a part's name, or NULL. */
static const char *after_maker(const char *name) {
    static const char *const MAKERS[] = {"NVIDIA", "AMD", "GeForce", "Tesla", "Instinct"};
    size_t word = strcspn(name, " ");
    for (size_t i = 0; i < sizeof MAKERS / sizeof *MAKERS && name[word] == ' '; i++) {
        if (strlen(MAKERS[i]) == word && strncmp(MAKERS[i], name, word) == 0) {
            return name + word + 1;
        }
    }
    return NULL;
}

orr_status orr_accelerator_find(orr_arena *arena, const char *name, orr_accelerator **out,
                                orr_err *err) {
    orr_tree *file = NULL;
    const char *stem = NULL;
    for (const char *part = after_maker(name); file == NULL && part != NULL;
         part = after_maker(part)) {
        if (orr_catalog_find(arena, &catalog, part, &file, &stem, NULL) != ORR_OK) {
            file = NULL;
        }
    }
    if (file == NULL) {
        ORR_TRY(orr_catalog_find(arena, &catalog, name, &file, &stem, err));
    }
    return orr_accelerator_read(arena, file, stem, out, err);
}

orr_tree *orr_accelerator_catalog(orr_arena *arena) {
    return orr_catalog_names(arena, &catalog);
}

orr_tree *orr_accelerator_write(orr_arena *arena, const orr_accelerator *accelerator) {
    sheet s;
    memset(&s, 0, sizeof s);
    s.a = *accelerator;
    s.name = accelerator->name;
    s.peak = orr_schema_write(&peak_schema, arena, accelerator->peak_flops);
    s.sources = accelerator->sources;
    return orr_schema_write(&schema, arena, &s);
}
