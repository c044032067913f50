/* Snapshots of PyTorch's allocator (torch.cuda.memory._dump_snapshot): a pickle of plain
 * containers, numbers and texts.
 *
 * Pickles are programs. Only the opcodes that make such plain values are known here; the first one
 * that could name, call or build anything else ends the reading with an error. Nothing is ever
 * executed. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "observe/observe_int.h"

enum {
    MAX_NODES = 3 << 20,
    MAX_STACK = 1 << 16,
    MAX_TEXT = 1 << 16, /* kept of one text */
    MAX_KEYS = 512,     /* of one map */
    SHOWN = 12
};

typedef struct machine {
    orr_arena *arena;
    orr_stream *stream;
    const char *part;
    size_t at, length;
    bool ended;
    orr_err *err;
    orr_tree **stack; /* NULL: a mark */
    size_t depth;
    orr_tree **memo;
    size_t memo_count, memo_capacity, nodes;
} machine;

static orr_status broken(machine *m, const char *why) {
    return orr_fail(m->err, ORR_E_SYNTAX, "this pickle is no snapshot of an allocator: %s", why);
}

static orr_status next_byte(machine *m, uint8_t *out) {
    while (m->at >= m->length) {
        if (m->ended) {
            return broken(m, "it is cut short");
        }
        ORR_TRY(orr_stream_next(m->stream, &m->part, &m->length, m->err));
        m->at = 0;
        m->ended = m->length == 0;
    }
    *out = (uint8_t)m->part[m->at++];
    return ORR_OK;
}

/* A little-endian number of up to 8 bytes. */
static orr_status read_bytes(machine *m, size_t count, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t byte;
        ORR_TRY(next_byte(m, &byte));
        *out |= i < 8 ? (uint64_t)byte << (8 * i) : 0;
    }
    return ORR_OK;
}

static orr_status push(machine *m, orr_tree *node) {
    if (m->depth == MAX_STACK || ++m->nodes > MAX_NODES) {
        return orr_fail(m->err, ORR_E_LIMIT, "a snapshot of more than %d values is not read",
                        MAX_NODES);
    }
    m->stack[m->depth++] = node;
    return ORR_OK;
}

static orr_status read_text(machine *m, size_t width) {
    uint64_t length;
    ORR_TRY(read_bytes(m, width, &length));
    size_t kept = length < MAX_TEXT ? (size_t)length : MAX_TEXT;
    char *text = (char *)orr_arena_alloc(m->arena, kept + 1);
    for (uint64_t i = 0; i < length; i++) {
        uint8_t byte;
        ORR_TRY(next_byte(m, &byte));
        if (i < kept) {
            text[i] = (char)(byte == 0 ? ' ' : byte);
        }
    }
    return push(m, orr_tree_new_text(m->arena, text));
}

static orr_status read_long(machine *m, size_t width) {
    uint64_t count, value;
    ORR_TRY(read_bytes(m, width, &count));
    if (count > 8) {
        return broken(m, "a number is too large");
    }
    ORR_TRY(read_bytes(m, (size_t)count, &value));
    if (count > 0 && count < 8 && (value >> (8 * count - 1) & 1) != 0) {
        value |= UINT64_MAX << (8 * count);
    }
    return push(m, orr_tree_new_int(m->arena, (int64_t)value));
}

static orr_status read_real(machine *m) {
    uint64_t bits = 0;
    double value;
    for (int i = 0; i < 8; i++) {
        uint8_t byte;
        ORR_TRY(next_byte(m, &byte));
        bits = bits << 8 | byte;
    }
    memcpy(&value, &bits, sizeof value);
    return push(m, orr_tree_new_real(m->arena, value));
}

static orr_status remember(machine *m, uint64_t index) {
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL || index >= MAX_NODES) {
        return broken(m, "its memo is broken");
    }
    if (index >= m->memo_capacity) {
        size_t capacity = m->memo_capacity == 0 ? 1024 : m->memo_capacity;
        while (capacity <= index) {
            capacity *= 2;
        }
        orr_tree **memo = ORR_NEW_ARRAY(m->arena, orr_tree *, capacity);
        if (m->memo_count > 0) {
            memcpy(memo, m->memo, m->memo_capacity * sizeof *memo);
        }
        m->memo = memo;
        m->memo_capacity = capacity;
    }
    m->memo[index] = m->stack[m->depth - 1];
    m->memo_count = index + 1 > m->memo_count ? (size_t)index + 1 : m->memo_count;
    return ORR_OK;
}

static orr_status recall(machine *m, size_t width) {
    uint64_t index;
    ORR_TRY(read_bytes(m, width, &index));
    if (index >= m->memo_count || m->memo[index] == NULL) {
        return broken(m, "it refers to what is not there");
    }
    return push(m, m->memo[index]);
}

/* Index after the last mark. */
static orr_status since_mark(machine *m, size_t *first) {
    for (size_t i = m->depth; i > 0; i--) {
        if (m->stack[i - 1] == NULL) {
            *first = i;
            return ORR_OK;
        }
    }
    return broken(m, "a mark is missing");
}

static orr_status put_pair(machine *m, orr_tree *map, const orr_tree *key, orr_tree *value) {
    const char *name = orr_tree_text(key, NULL);
    if (name == NULL && orr_tree_kind_of(key) == ORR_TREE_INT) {
        name = orr_arena_format(m->arena, "%lld", (long long)orr_tree_int(key, 0));
    }
    if (name == NULL || value == NULL || orr_tree_kind_of(map) != ORR_TREE_MAP ||
        orr_tree_size(map) >= MAX_KEYS) {
        return broken(m, "a map is not as expected");
    }
    (void)orr_tree_put(m->arena, map, name, value);
    return ORR_OK;
}

/* Values [first, depth) into the container below them, whose marks go too. */
static orr_status fill(machine *m, size_t first, size_t below, bool pairs) {
    if (below >= m->depth || m->stack[below] == NULL) {
        return broken(m, "a container is missing");
    }
    orr_tree *to = m->stack[below];
    if (!pairs && orr_tree_kind_of(to) != ORR_TREE_LIST) {
        return broken(m, "a list is not as expected");
    }
    for (size_t i = first; i < m->depth; i++) {
        if (m->stack[i] == NULL || (pairs && i + 1 == m->depth)) {
            return broken(m, "a container is broken");
        }
        if (pairs) {
            ORR_TRY(put_pair(m, to, m->stack[i], m->stack[i + 1]));
            i++;
        } else {
            (void)orr_tree_push(m->arena, to, m->stack[i]);
        }
    }
    m->depth = below + 1;
    return ORR_OK;
}

/* Values since `first` as a new container in their place; `drop`: so many marks below go. */
static orr_status gather(machine *m, size_t first, size_t drop, bool pairs) {
    orr_tree *list = pairs ? orr_tree_new_map(m->arena) : orr_tree_new_list(m->arena);
    for (size_t i = first; i < m->depth; i++) {
        if (m->stack[i] == NULL || (pairs && i + 1 == m->depth)) {
            return broken(m, "a container is broken");
        }
        if (pairs) {
            ORR_TRY(put_pair(m, list, m->stack[i], m->stack[i + 1]));
            i++;
        } else {
            (void)orr_tree_push(m->arena, list, m->stack[i]);
        }
    }
    m->depth = first - drop;
    return push(m, list);
}

static orr_status gather_last(machine *m, size_t count) {
    return m->depth >= count ? gather(m, m->depth - count, 0, false)
                             : broken(m, "a tuple is missing");
}

static orr_status fill_since_mark(machine *m, bool pairs) {
    size_t first;
    ORR_TRY(since_mark(m, &first));
    return first >= 2 ? fill(m, first, first - 2, pairs) : broken(m, "a container is missing");
}

static orr_status gather_since_mark(machine *m, bool pairs) {
    size_t first;
    ORR_TRY(since_mark(m, &first));
    return gather(m, first, 1, pairs);
}

static orr_status drop_since_mark(machine *m) {
    size_t first;
    ORR_TRY(since_mark(m, &first));
    m->depth = first - 1;
    return ORR_OK;
}

static orr_status push_int(machine *m, size_t width) {
    uint64_t value;
    ORR_TRY(read_bytes(m, width, &value));
    return push(m, orr_tree_new_int(m->arena, width == 4 ? (int32_t)value : (int64_t)value));
}

static orr_status remember_at(machine *m, size_t width) {
    uint64_t index;
    ORR_TRY(read_bytes(m, width, &index));
    return remember(m, index);
}

static orr_status step(machine *m, uint8_t code) {
    uint64_t ignored;
    switch (code) {
    case 0x80: return read_bytes(m, 1, &ignored); /* PROTO */
    case 0x95: return read_bytes(m, 8, &ignored); /* FRAME */
    case '}': return push(m, orr_tree_new_map(m->arena));
    case ']':
    case ')':
    case 0x8f: return push(m, orr_tree_new_list(m->arena));
    case '(': return push(m, NULL);
    case 'q': return remember_at(m, 1);
    case 'r': return remember_at(m, 4);
    case 0x94: return remember(m, m->memo_count);
    case 'h': return recall(m, 1);
    case 'j': return recall(m, 4);
    case 'U':
    case 'C':
    case 0x8c: return read_text(m, 1);
    case 'T':
    case 'B':
    case 'X': return read_text(m, 4);
    case 0x8d: return read_text(m, 8);
    case 'K': return push_int(m, 1);
    case 'M': return push_int(m, 2);
    case 'J': return push_int(m, 4);
    case 0x8a: return read_long(m, 1);
    case 0x8b: return read_long(m, 4);
    case 'G': return read_real(m);
    case 'N': return push(m, orr_tree_null(m->arena));
    case 0x88:
    case 0x89: return push(m, orr_tree_new_bool(m->arena, code == 0x88));
    case 'a':
        return m->depth >= 2 ? fill(m, m->depth - 1, m->depth - 2, false)
                             : broken(m, "a list is missing");
    case 's':
        return m->depth >= 3 ? fill(m, m->depth - 2, m->depth - 3, true)
                             : broken(m, "a map is missing");
    case 'e':
    case 0x90: return fill_since_mark(m, false);
    case 'u': return fill_since_mark(m, true);
    case 't':
    case 'l': return gather_since_mark(m, false);
    case 'd': return gather_since_mark(m, true);
    case 0x85: return gather_last(m, 1);
    case 0x86: return gather_last(m, 2);
    case 0x87: return gather_last(m, 3);
    case '0': m->depth -= m->depth > 0; return ORR_OK;
    case '1': return drop_since_mark(m);
    default:
        return orr_fail(m->err, ORR_E_SYNTAX,
                        "this pickle does more than hold plain values (opcode 0x%02x): it is "
                        "not read, since reading it could run code",
                        code);
    }
}

static orr_status read_pickle(machine *m, const orr_tree **out) {
    for (;;) {
        uint8_t code;
        ORR_TRY(next_byte(m, &code));
        if (code == '.') {
            break;
        }
        ORR_TRY(step(m, code));
    }
    if (m->depth == 0 || m->stack[m->depth - 1] == NULL) {
        return broken(m, "it is empty");
    }
    *out = m->stack[m->depth - 1];
    return ORR_OK;
}

/* ---- what it says ---------------------------------------------------------------------------- */

static double real(const orr_tree *map, const char *key) {
    return orr_tree_real(orr_tree_get(map, key), 0);
}

static const char *text(const orr_tree *map, const char *key) {
    return orr_tree_text(orr_tree_get(map, key), "");
}

typedef struct block {
    double bytes;
    const char *where;
} block;

typedef struct totals {
    double reserved, allocated, requested, largest_free, peak_allocated, peak_reserved;
    uint32_t segments, blocks, events, ooms;
    double oom_bytes;
    block top[SHOWN];
} totals;

/* The first frame outside of PyTorch itself. */
static const char *where_of(orr_arena *arena, const orr_tree *one) {
    const orr_tree *frames = orr_tree_get(one, "frames");
    for (size_t i = 0; i < orr_tree_size(frames); i++) {
        const orr_tree *frame = orr_tree_at(frames, i);
        const char *file = text(frame, "filename");
        if (file[0] != '\0' && strcmp(file, "??") != 0 && strstr(file, "/torch/") == NULL) {
            return orr_arena_format(arena, "%s:%.0f %s", file, real(frame, "line"),
                                    text(frame, "name"));
        }
    }
    return "";
}

static void keep_block(totals *t, double bytes, const char *where) {
    for (size_t i = 0; i < SHOWN; i++) {
        if (bytes > t->top[i].bytes) {
            memmove(&t->top[i + 1], &t->top[i], (SHOWN - 1 - i) * sizeof *t->top);
            t->top[i] = (block){bytes, where};
            return;
        }
    }
}

static void add_segment(orr_arena *arena, totals *t, const orr_tree *segment) {
    const orr_tree *blocks = orr_tree_get(segment, "blocks");
    t->segments++;
    t->reserved += real(segment, "total_size");
    t->allocated += real(segment, "allocated_size");
    for (size_t i = 0; i < orr_tree_size(blocks); i++) {
        const orr_tree *one = orr_tree_at(blocks, i);
        double bytes = real(one, "size");
        if (strcmp(text(one, "state"), "active_allocated") == 0) {
            double requested = real(one, "requested_size");
            t->blocks++;
            t->requested += requested > 0 ? requested : bytes;
            keep_block(t, bytes, where_of(arena, one));
        } else {
            t->largest_free = orr_max_f64(t->largest_free, bytes);
        }
    }
}

/* The trace ends at the snapshot; what was before follows from going back. */
static void go_back(totals *t, const orr_tree *events) {
    double allocated = t->allocated, reserved = t->reserved;
    t->peak_allocated = allocated;
    t->peak_reserved = reserved;
    for (size_t i = orr_tree_size(events); i > 0; i--) {
        const orr_tree *event = orr_tree_at(events, i - 1);
        const char *action = text(event, "action");
        double bytes = real(event, "size");
        t->events++;
        if (strcmp(action, "alloc") == 0) {
            allocated -= bytes;
        } else if (strcmp(action, "free_requested") == 0) {
            allocated += bytes;
        } else if (strcmp(action, "segment_alloc") == 0 || strcmp(action, "segment_map") == 0) {
            reserved -= bytes;
        } else if (strcmp(action, "segment_free") == 0 || strcmp(action, "segment_unmap") == 0) {
            reserved += bytes;
        } else if (strcmp(action, "oom") == 0) {
            t->ooms++;
            t->oom_bytes = bytes;
        }
        t->peak_allocated = orr_max_f64(t->peak_allocated, allocated);
        t->peak_reserved = orr_max_f64(t->peak_reserved, reserved);
    }
}

static orr_tree *write_totals(orr_arena *arena, const totals *t, int64_t device) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "device", device);
    orr_tree_put_real(arena, map, "allocated_bytes", t->allocated);
    orr_tree_put_real(arena, map, "requested_bytes", t->requested);
    orr_tree_put_real(arena, map, "reserved_bytes", t->reserved);
    orr_tree_put_real(arena, map, "peak_allocated_bytes", t->peak_allocated);
    orr_tree_put_real(arena, map, "peak_reserved_bytes", t->peak_reserved);
    orr_tree_put_real(arena, map, "largest_free_bytes", t->largest_free);
    orr_tree_put_int(arena, map, "segments", t->segments);
    orr_tree_put_int(arena, map, "blocks", t->blocks);
    orr_tree_put_int(arena, map, "events", t->events);
    if (t->ooms > 0) {
        orr_tree_put_int(arena, map, "out_of_memory", t->ooms);
        orr_tree_put_real(arena, map, "out_of_memory_bytes", t->oom_bytes);
    }
    orr_tree *top = orr_tree_put(arena, map, "largest", orr_tree_new_list(arena));
    for (size_t i = 0; i < SHOWN && t->top[i].bytes > 0; i++) {
        orr_tree *one = orr_tree_push(arena, top, orr_tree_new_map(arena));
        orr_tree_put_real(arena, one, "bytes", t->top[i].bytes);
        orr_tree_put_text(arena, one, "where", t->top[i].where);
    }
    return map;
}

orr_status orr_observe_snapshot(orr_arena *arena, orr_stream *stream, orr_observation *out,
                                orr_err *err) {
    machine m = {.arena = arena, .stream = stream, .err = err};
    const orr_tree *root = NULL;
    m.stack = ORR_NEW_ARRAY(arena, orr_tree *, MAX_STACK);
    ORR_TRY(read_pickle(&m, &root));
    const orr_tree *segments = orr_tree_get(root, "segments");
    if (orr_tree_kind_of(segments) != ORR_TREE_LIST) {
        return broken(&m, "it has no list of segments");
    }
    int64_t device = INT64_MAX;
    for (size_t i = 0; i < orr_tree_size(segments); i++) {
        int64_t own = orr_tree_int(orr_tree_get(orr_tree_at(segments, i), "device"), 0);
        device = own < device ? own : device;
    }
    device = device == INT64_MAX ? 0 : device;
    totals t = {0};
    for (size_t i = 0; i < orr_tree_size(segments); i++) {
        const orr_tree *one = orr_tree_at(segments, i);
        if (orr_tree_int(orr_tree_get(one, "device"), 0) == device) {
            add_segment(arena, &t, one);
        }
    }
    go_back(&t,
            device >= 0 ? orr_tree_at(orr_tree_get(root, "device_traces"), (size_t)device) : NULL);
    out->kind = ORR_OBSERVED_SNAPSHOT;
    out->format = "pytorch-snapshot";
    out->tree = write_totals(arena, &t, device);
    out->log.oom_rank = -1;
    out->log.peak_allocated_bytes = t.peak_allocated;
    out->log.peak_reserved_bytes = t.peak_reserved;
    if (t.events == 0) {
        orr_observation_warn(arena, out,
                             "no history was recorded: peaks are what the snapshot holds");
    }
    return ORR_OK;
}
