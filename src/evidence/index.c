/* A set in its final form: equal keys merged, sorted, hashed; exact lookup. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/num.h"
#include "evidence/evidence_int.h"

static int by_key(const void *a, const void *b) {
    const orr_evidence_record *x = (const orr_evidence_record *)a;
    const orr_evidence_record *y = (const orr_evidence_record *)b;
    int order = memcmp(&x->key, &y->key, sizeof x->key);
    if (order != 0) {
        return order;
    }
    return x->time_s < y->time_s ? -1 : x->time_s > y->time_s;
}

/* Equal keys, fastest first, become their median; the spread is that of the repetitions and that
 * between the records, whichever is larger. */
static orr_evidence_record merge(const orr_evidence_record *record, uint32_t count) {
    orr_evidence_record one = record[count / 2];
    if (count % 2 == 0) {
        one.time_s = (record[count / 2 - 1].time_s + record[count / 2].time_s) / 2;
    }
    double mean = 0, variance = 0;
    one.samples = 0;
    for (uint32_t i = 0; i < count; i++) {
        mean += record[i].time_s / count;
        one.samples += record[i].samples;
        one.spread_frac = orr_max_f64(one.spread_frac, record[i].spread_frac);
    }
    for (uint32_t i = 0; i < count; i++) {
        variance += (record[i].time_s / mean - 1) * (record[i].time_s / mean - 1);
    }
    if (count > 1) {
        one.spread_frac = orr_max_f64(one.spread_frac, sqrt(variance / (count - 1)));
    }
    return one;
}

static bool is_stated(const char *text) {
    return text != NULL && text[0] != '\0';
}

static bool same_text(const char *a, const char *b) {
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

/* Whose record of a shape counts: of the wanted device and software before others, run by a
 * framework before run alone, of the file named first. */
static bool is_before(const orr_evidence_record *a, const orr_evidence_record *b) {
    if (a->foreign != b->foreign) {
        return b->foreign;
    }
    bool a_stated = is_stated(a->software), b_stated = is_stated(b->software);
    return a_stated != b_stated ? a_stated : a->file < b->file;
}

/* Of equal keys, those of one device and software: times of two have no median. Keeps their order
 * and returns their number. */
static uint32_t of_one_identity(orr_evidence *set, orr_evidence_record *record, uint32_t count) {
    const orr_evidence_record *best = &record[0];
    for (uint32_t i = 1; i < count; i++) {
        best = is_before(&record[i], best) ? &record[i] : best;
    }
    const char *device = best->device, *software = best->software;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (same_text(record[i].device, device) && same_text(record[i].software, software)) {
            record[kept++] = record[i];
        } else {
            set->file[record[i].file].superseded++;
        }
    }
    return kept;
}

static void build_slots(orr_arena *arena, orr_evidence *set) {
    set->slots = 16;
    while (set->slots < 2 * set->count) {
        set->slots *= 2;
    }
    uint32_t *slot = ORR_NEW_ARRAY(arena, uint32_t, set->slots);
    for (uint32_t i = 0; i < set->count; i++) {
        uint64_t at = orr_hash(&set->record[i].key, sizeof set->record[i].key);
        while (slot[at % set->slots] != 0) {
            at++;
        }
        slot[at % set->slots] = i + 1;
    }
    set->slot = slot;
}

void orr_evidence_settle(orr_evidence_draft *draft) {
    orr_evidence *set = draft->set;
    orr_evidence_record *record = draft->record;
    if (draft->count > 0) {
        qsort(record, draft->count, sizeof *record, by_key);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0, n = 1; i < draft->count; i += n) {
        for (n = 1; i + n < draft->count &&
                    memcmp(&record[i].key, &record[i + n].key, sizeof record->key) == 0;) {
            n++;
        }
        record[kept++] = merge(&record[i], of_one_identity(set, &record[i], n));
    }
    set->device = draft->device != NULL        ? orr_arena_text(draft->arena, draft->device->name)
                  : draft->device_text != NULL ? draft->device_text
                                               : "";
    set->record = record;
    set->count = kept;
    set->step = draft->step;
    set->step_count = draft->step_count;
    uint64_t hash = 0;
    for (uint32_t i = 0; i < kept; i++) {
        const uint64_t words[] = {hash, orr_hash(&record[i].key, sizeof record[i].key),
                                  orr_hash(&record[i].time_s, sizeof record[i].time_s)};
        hash = orr_hash(words, sizeof words);
    }
    for (uint32_t i = 0; i < set->step_count; i++) {
        const uint64_t words[] = {hash, orr_hash(&set->step[i].time_s, sizeof set->step[i].time_s)};
        hash = orr_hash(words, sizeof words);
    }
    set->hash = hash;
    build_slots(draft->arena, set);
}

static const orr_evidence_record *get(const orr_evidence *evidence, const orr_evidence_key *key) {
    for (uint64_t at = orr_hash(key, sizeof *key);; at++) {
        uint32_t index = evidence->slot[at % evidence->slots];
        if (index == 0) {
            return NULL;
        }
        const orr_evidence_record *record = &evidence->record[index - 1];
        if (memcmp(&record->key, key, sizeof *key) == 0) {
            return record;
        }
    }
}

const orr_evidence_record *orr_evidence_unit(const orr_evidence *evidence, orr_phase phase,
                                             double gather_bytes) {
    const orr_evidence_record *best = NULL;
    double best_off = 0;
    for (uint32_t i = 0; i < evidence->count; i++) { /* sorted: of equals the smaller is first */
        const orr_evidence_record *one = &evidence->record[i];
        if (one->key.kind != ORR_EVIDENCE_UNIT || one->key.phase != phase) {
            continue;
        }
        double off = fabs(log(orr_max_f64(1, (double)one->key.dim[0]) / gather_bytes));
        if (best == NULL || off < best_off) {
            best = one;
            best_off = off;
        }
    }
    return best;
}

const orr_evidence_record *orr_evidence_find(const orr_evidence *evidence,
                                             const orr_evidence_key *key) {
    const orr_evidence_record *found = get(evidence, key);
    if (found != NULL || key->kind > ORR_OP_ATTENTION) {
        return found;
    }
    orr_evidence_key vague = *key;
    vague.out_bytes = 0;
    found = get(evidence, &vague);
    if (found == NULL && key->kind != ORR_OP_ATTENTION) {
        vague.phase = ORR_EVIDENCE_ANY;
        found = get(evidence, &vague);
    }
    return found;
}
