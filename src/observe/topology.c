/* What a host is made of, as a cluster file: `nvidia-smi topo -m`, `rocm-smi --showtopo`, and the
 * topology that NCCL and RCCL dump (NCCL_TOPO_DUMP_FILE). None names the accelerator in the
 * catalog's words: what stands for it is said. */
#include <string.h>

#include "base/err.h"
#include "observe/observe_int.h"

enum { MAX_TOKENS = 256, MAX_GPUS = 128, MAX_NICS = 128 };

typedef struct host {
    uint32_t gpus, nics;
    uint32_t links;    /* NVLinks of the poorest pair; 0: some pair has none */
    bool xgmi, joined; /* joined: every pair has a link */
    double nic_bps;    /* of all NICs, bits a second; 0: not printed */
    const char *accelerator, *guess;
} host;

static void finish(orr_arena *arena, const char *name, const char *format, const host *h,
                   orr_observation *out) {
    if (h->gpus == 0) {
        return;
    }
    out->kind = ORR_OBSERVED_TOPOLOGY;
    out->format = format;
    out->tree = orr_tree_new_map(arena);
    orr_tree_put_int(arena, out->tree, "gpus", h->gpus);
    orr_tree_put_int(arena, out->tree, "nics", h->nics);
    orr_put_nonzero(arena, out->tree, "nvlinks", h->links);
    orr_tree_put_bool(arena, out->tree, "all_pairs_linked", h->joined);
    orr_put_nonzero(arena, out->tree, "nic_bits_per_s", h->nic_bps);
    orr_tree *file = out->content = orr_tree_new_map(arena);
    orr_tree_put_text(arena, file, "accelerator", h->accelerator);
    orr_tree_put_int(arena, file, "gpus_per_node", h->gpus);
    orr_tree_put_int(arena, file, "domain", h->joined ? h->gpus : 1);
    if (h->nic_bps > 0) {
        orr_tree_put_real(arena, file, "nic_Bps", h->nic_bps / 8 / h->gpus);
    }
    orr_tree_put_text(arena, file, "source", name != NULL ? name : format);
    orr_observation_warn(arena, out, "the accelerator is not named: '%s' stands for it (%s)",
                         h->accelerator, h->guess);
    if (!(h->nic_bps > 0)) {
        orr_observation_warn(arena, out,
                             "the line rate of %u NICs is not printed: nic_Bps is the usual one",
                             h->nics);
    }
    if (!h->joined) {
        orr_observation_warn(arena, out,
                             "not every pair of accelerators has a link of its own: they count as "
                             "a host's without a scale-up domain");
    }
}

static bool is_numbered(const char *text, const char *word) {
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && text[n] >= '0' && text[n] <= '9' &&
           text[n + strspn(text + n, "0123456789")] == '\0';
}

static void guess_by_links(host *h) {
    h->accelerator = h->links >= 18 ? "h100" : h->links >= 12 ? "a100-80g" : "unknown";
    h->guess = h->links >= 18   ? "18 NVLinks: H100, H200 and B200 have as many"
               : h->links >= 12 ? "12 NVLinks: an A100, of 40 or 80 GB"
                                : "no NVLinks tell it";
}

/* ---- nvidia-smi topo -m -----------------------------------------------------------------------
 */

orr_status orr_observe_topo(orr_arena *arena, const char *name, orr_stream *stream,
                            orr_observation *out, orr_err *err) {
    host h = {.links = UINT32_MAX};
    uint32_t linked = 0;
    char **token = ORR_NEW_ARRAY(arena, char *, MAX_TOKENS);
    for (;;) {
        char *line;
        ORR_TRY(orr_stream_line(stream, &line, err));
        if (line == NULL || h.gpus > MAX_GPUS) {
            break;
        }
        size_t count = orr_observe_words(line, token, MAX_TOKENS);
        bool self = false;
        for (size_t i = 1; i < count; i++) {
            self = self || strcmp(token[i], "X") == 0;
        }
        if (count < 2 || !self) {
            continue; /* the header, the legend */
        }
        bool nic = is_numbered(token[0], "NIC") || strncmp(token[0], "mlx", 3) == 0;
        h.nics += nic;
        if (!is_numbered(token[0], "GPU")) {
            continue;
        }
        h.gpus++;
        for (size_t i = 1; i < count; i++) {
            double links;
            const char *end;
            if (strncmp(token[i], "NV", 2) == 0 && orr_scan_number(token[i] + 2, &links, &end)) {
                h.links = links < h.links ? (uint32_t)links : h.links;
            }
        }
        for (size_t i = 1; i < count; i++) {
            linked += strncmp(token[i], "NV", 2) == 0;
        }
    }
    h.links = h.links == UINT32_MAX ? 0 : h.links;
    h.joined = h.gpus > 1 && linked >= h.gpus * (h.gpus - 1);
    guess_by_links(&h);
    finish(arena, name, "nvidia-smi-topo", &h, out);
    return ORR_OK;
}

/* ---- rocm-smi --showtopo ----------------------------------------------------------------------
 */

orr_status orr_observe_rocm(orr_arena *arena, const char *name, orr_stream *stream,
                            orr_observation *out, orr_err *err) {
    host h = {.joined = true,
              .accelerator = "mi300x",
              .guess = "rocm-smi --showproductname tells which it is"};
    bool types = false;
    char **token = ORR_NEW_ARRAY(arena, char *, MAX_TOKENS);
    for (;;) {
        char *line;
        ORR_TRY(orr_stream_line(stream, &line, err));
        if (line == NULL || h.gpus > MAX_GPUS) {
            break;
        }
        if (strstr(line, "====") != NULL) {
            types = strstr(line, "Link Type") != NULL;
            continue;
        }
        size_t count = orr_observe_words(line, token, MAX_TOKENS);
        if (!types || count < 2 || !is_numbered(token[0], "GPU") || is_numbered(token[1], "GPU")) {
            continue;
        }
        h.gpus++;
        for (size_t i = 1; i < count; i++) {
            bool own = strcmp(token[i], "0") == 0;
            h.joined = h.joined && (own || strcmp(token[i], "XGMI") == 0);
        }
    }
    finish(arena, name, "rocm-smi-topo", &h, out);
    return ORR_OK;
}

/* ---- NCCL's XML -------------------------------------------------------------------------------
 */

/* The value of an attribute inside a tag, into `to`; false without. */
static bool attribute(const char *tag, const char *key, char *to, size_t size) {
    size_t n = strlen(key);
    for (const char *p = tag; (p = strstr(p, key)) != NULL; p += n) {
        if (p > tag && p[-1] == ' ' && p[n] == '=' && p[n + 1] == '"') {
            size_t length = strcspn(p + n + 2, "\"");
            length = length < size - 1 ? length : size - 1;
            memcpy(to, p + n + 2, length);
            to[length] = '\0';
            return true;
        }
    }
    return false;
}

static double attribute_number(const char *tag, const char *key) {
    char text[64];
    const char *end;
    double value;
    return attribute(tag, key, text, sizeof text) && orr_scan_number(text, &value, &end) ? value
                                                                                         : 0;
}

static void read_gpu(host *h, const char *tag) {
    static const struct {
        double sm;
        const char *name, *guess;
    } kinds[] = {{80, "a100-80g", "sm 80: an A100, of 40 or 80 GB"},
                 {90, "h100", "sm 90: H100 and H200 are alike"},
                 {100, "b200", "sm 100: B200 or GB200"},
                 {103, "b300", "sm 103: B300 or GB300"},
                 {89, "l40s", "sm 89"}};
    static const struct {
        const char *gcn, *name, *guess;
    } amd[] = {{"gfx942", "mi300x", "gfx942: MI300X and MI325X are alike"},
               {"gfx950", "mi355x", "gfx950: MI350X and MI355X are alike"},
               {"gfx90a", "mi250x", "gfx90a"}};
    char gcn[64];
    double sm = attribute_number(tag, "sm");
    h->gpus++;
    if (h->accelerator == NULL) {
        h->accelerator = "unknown";
        h->guess = "neither sm nor gcn tells it";
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (sm == kinds[i].sm) {
            h->accelerator = kinds[i].name;
            h->guess = kinds[i].guess;
        }
    }
    for (size_t i = 0; attribute(tag, "gcn", gcn, sizeof gcn) && i < sizeof amd / sizeof *amd;
         i++) {
        if (strncmp(gcn, amd[i].gcn, strlen(amd[i].gcn)) == 0) {
            h->accelerator = amd[i].name;
            h->guess = amd[i].guess;
        }
    }
}

/* Tags as they stream; text between them, comments and declarations are passed over. */
orr_status orr_observe_xml(orr_arena *arena, const char *name, orr_stream *stream,
                           orr_observation *out, orr_err *err) {
    enum { TAG_BYTES = 2048 };
    char *tag = (char *)orr_arena_alloc(arena, TAG_BYTES);
    host h = {0};
    size_t n = 0;
    bool inside = false;
    double fastest = 0;
    uint32_t linked = 0;
    for (;;) {
        const char *part;
        size_t length;
        ORR_TRY(orr_stream_next(stream, &part, &length, err));
        if (length == 0) {
            break;
        }
        for (size_t i = 0; i < length; i++) {
            if (part[i] == '<') {
                inside = true;
                n = 0;
            } else if (part[i] == '>' && inside) {
                tag[n] = '\0';
                inside = false;
                if (strncmp(tag, "gpu ", 4) == 0 && h.gpus < MAX_GPUS) {
                    read_gpu(&h, tag);
                } else if (strncmp(tag, "nvlink ", 7) == 0 || strncmp(tag, "xgmi ", 5) == 0) {
                    double count = attribute_number(tag, "count");
                    h.links = count > h.links && count < 1000 ? (uint32_t)count : h.links;
                    linked++;
                } else if (strncmp(tag, "net ", 4) == 0 && h.nics < MAX_NICS) {
                    double speed = attribute_number(tag, "speed") * 1e6;
                    h.nics = speed > fastest ? 1 : h.nics + (speed == fastest);
                    fastest = speed > fastest ? speed : fastest;
                }
            } else if (inside && n + 1 < TAG_BYTES) {
                tag[n++] = part[i] == '\n' || part[i] == '\t' ? ' ' : part[i];
            }
        }
    }
    h.joined = linked >= h.gpus;
    h.nic_bps = h.nics * fastest;
    finish(arena, name, "nccl-topology", &h, out);
    return ORR_OK;
}
