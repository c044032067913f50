/* What tables of measurements call things: accelerators, the systems that they stand in, and
 * numeric schemes. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "cost/calibration_int.h"

/* A system of the tables: an accelerator, and what is built otherwise than usual. */
typedef struct site {
    const char *device;
    double nic_Bps, link_Bps; /* 0: as usual */
    uint8_t topology;         /* 0: as usual, else one more than orr_topology */
} site;
static const char *const SITE_TOPOLOGIES[] = {"usual", ORR_TOPOLOGY_WORDS, NULL};
static const orr_field SITE_FIELDS[] = {
    {.name = "device",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(site, device),
     .doc = "Catalog name of the accelerator."},
    {.name = "nic",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(site, nic_Bps),
     .max = 1e16,
     .unit = "bytes/s",
     .fallback = "0",
     .doc = "Network bandwidth of one accelerator; 0: the usual."},
    {.name = "link",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(site, link_Bps),
     .max = 1e16,
     .unit = "bytes/s",
     .fallback = "0",
     .doc = "Scale-up links of one accelerator; 0: the usual."},
    {.name = "topology",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(site, topology),
     .values = SITE_TOPOLOGIES,
     .fallback = "usual",
     .doc = "How its links are laid."},
};
static const orr_schema SITE_SCHEMA = {"system", SITE_FIELDS,
                                       sizeof SITE_FIELDS / sizeof *SITE_FIELDS, false};

static orr_status read_site(orr_arena *arena, const orr_tree *entry, const char *name, site *out,
                            orr_err *err) {
    *out = (site){.device = orr_tree_text(entry, name)};
    return orr_tree_kind_of(entry) == ORR_TREE_MAP
               ? orr_schema_read(&SITE_SCHEMA, arena, entry, out, NULL, err)
               : ORR_OK;
}

orr_status orr_devices_add(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                           orr_err *err) {
    const orr_tree *names = orr_tree_get(file, "names");
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        site s;
        ORR_TRY(read_site(arena, orr_tree_at(names, i), orr_tree_key(names, i), &s, err));
    }
    into->devices = names;
    into->libraries = orr_tree_get(file, "libraries");
    into->operations = orr_tree_get(file, "operations");
    return ORR_OK;
}

orr_accelerator *orr_calibration_device(orr_arena *arena, const orr_calibration *calibration,
                                        const char *name) {
    site s;
    orr_accelerator *out = NULL;
    if (read_site(arena, orr_tree_get(calibration->devices, name), name, &s, NULL) != ORR_OK ||
        strchr(s.device, '/') != NULL || /* a name of two parts, never a file */
        orr_accelerator_find(arena, s.device, &out, NULL) != ORR_OK) {
        return NULL;
    }
    out->nic_Bps = s.nic_Bps > 0 ? s.nic_Bps : out->nic_Bps;
    out->link_Bps = s.link_Bps > 0 ? s.link_Bps : out->link_Bps;
    out->topology = s.topology > 0 ? (uint8_t)(s.topology - 1) : out->topology;
    return out;
}

orr_accelerator *orr_calibration_system(orr_arena *arena, const orr_calibration *calibration,
                                        const char *name, bool of_parts) {
    char *part = orr_arena_text(arena, name);
    for (;;) {
        orr_accelerator *found = orr_calibration_device(arena, calibration, part);
        char *last = strrchr(part, ' ');
        if (found != NULL || !of_parts || last == NULL) {
            return found;
        }
        *last = '\0';
    }
}

orr_machine orr_scheme_machine(const orr_accelerator *accelerator, const char *scheme,
                               orr_dtype dtype) {
    orr_machine machine = orr_machine_of(accelerator, dtype);
    if (strstr(scheme, "fp4") != NULL && !(accelerator->peak_flops[dtype] > 0) &&
        accelerator->peak_flops[ORR_FP8] > 0) {
        machine.peak_flops = 2 * accelerator->peak_flops[ORR_FP8];
    }
    if (strcmp(scheme, "int8") == 0 && accelerator->peak_flops[ORR_INT8] > 0) {
        machine.peak_flops = accelerator->peak_flops[ORR_INT8];
    }
    return machine;
}

bool orr_scheme_dtype(const char *scheme, orr_dtype *out) {
    static const struct {
        const char *scheme;
        orr_dtype dtype;
    } known[] = {{"bf16", ORR_BF16},
                 {"fp16", ORR_FP16},
                 {"fp8", ORR_FP8},
                 {"fp8_e4m3", ORR_FP8},
                 {"fp8_dynquant", ORR_FP8},
                 {"fp8_row", ORR_FP8},
                 {"fp8_block128", ORR_FP8_BLOCK},
                 {"mxfp8", ORR_MXFP8},
                 {"nvfp4", ORR_NVFP4},
                 {"nvfp4_dynquant", ORR_NVFP4},
                 {"mxfp4", ORR_NVFP4},
                 {"bfloat16", ORR_BF16},
                 {"fp8_block", ORR_FP8_BLOCK},
                 {"int4", ORR_NVFP4},
                 {"int8", ORR_FP8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(scheme, known[i].scheme) == 0) {
            *out = known[i].dtype;
            return true;
        }
    }
    return false;
}
