/* The rules of the schedules, as data: each broken one with its id, numbers and a way out. */
#include <stdarg.h>
#include <stdio.h>

#include "schedule/schedule_int.h"

typedef struct rule_list {
    orr_schedule_rule *rule;
    uint32_t max, count;
} rule_list;

static void broken(rule_list *list, const char *id, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void broken(rule_list *list, const char *id, const char *hint, const char *format, ...) {
    if (list->count < list->max) {
        orr_schedule_rule *rule = &list->rule[list->count];
        rule->id = id;
        va_list args;
        va_start(args, format);
        vsnprintf(rule->message, sizeof rule->message, format, args);
        va_end(args);
        snprintf(rule->hint, sizeof rule->hint, "%s", hint);
    }
    list->count++;
}

static void check_size(const orr_schedule_spec *s, rule_list *out) {
    if (s->kind >= ORR_SCHEDULE_COUNT) {
        broken(out, "SCH-KIND", "use a known schedule", "unknown schedule kind %u", s->kind);
    }
    if (s->p2p > ORR_P2P_OVERLAP_WARMUP_FLUSH) {
        broken(out, "SCH-P2P", "use a known p2p mode", "unknown p2p mode %u", s->p2p);
    }
    if (s->pp == 0 || s->pp > ORR_MAX_PP) {
        broken(out, "SCH-PP", "use 1 to 1024 pipeline ranks", "%u pipeline ranks", s->pp);
    }
    if (s->vpp > ORR_MAX_VPP) {
        broken(out, "SCH-VPP", "use 1 to 128 chunks", "%u chunks a rank", s->vpp);
    }
    if (s->micro_batches == 0 || s->micro_batches > ORR_MAX_MICRO_BATCHES) {
        broken(out, "SCH-MICRO-BATCHES", "use 1 to 1048576 micro-batches", "%u micro-batches",
               s->micro_batches);
    }
    uint64_t ops = 3ull * s->pp * orr_max_u32(s->vpp, 1) * s->micro_batches;
    if (out->count == 0 && ops > ORR_MAX_SCHEDULE_OPS) {
        broken(out, "SCH-SIZE", "use fewer micro-batches, chunks or ranks", "%llu ops, at most %u",
               (unsigned long long)ops, (unsigned)ORR_MAX_SCHEDULE_OPS);
    }
}

static void check_placement(const orr_schedule_spec *s, const kind_facts *facts, rule_list *out) {
    if (facts->vpp != 0 && s->vpp != 0 && s->vpp != facts->vpp) {
        broken(out, "SCH-CHUNKS", "leave the number of chunks to the schedule",
               "%s needs %u chunk%s a rank, not %u", facts->name, facts->vpp,
               facts->vpp == 1 ? "" : "s", s->vpp);
    }
    if (facts->place == PLACE_TWO_WAY && (s->pp % 2 != 0 || s->micro_batches % 2 != 0)) {
        broken(out, "SCH-TWO-WAY", "use even numbers of ranks and micro-batches",
               "%s runs both ways: pp %u and %u micro-batches must be even", facts->name, s->pp,
               s->micro_batches);
    }
    if (s->kind == ORR_SCHEDULE_HANAYO && (s->vpp == 0 || s->vpp % 2 != 0)) {
        broken(out, "SCH-WAVES", "use two chunks a wave",
               "hanayo needs an even number of chunks a rank, not %u", s->vpp);
    }
}

static void check_p2p(const orr_schedule_spec *s, const kind_facts *facts, rule_list *out) {
    bool overlap = s->p2p == ORR_P2P_OVERLAP || s->p2p == ORR_P2P_OVERLAP_WARMUP_FLUSH;
    if (overlap && s->kind != ORR_SCHEDULE_INTERLEAVED) {
        broken(out, "SCH-P2P-OVERLAP", "use interleaved, or do not overlap p2p",
               "overlapped p2p is for the interleaved schedule, not %s", facts->name);
    }
    if (s->p2p == ORR_P2P_BLOCKING && s->kind != ORR_SCHEDULE_INTERLEAVED &&
        s->kind != ORR_SCHEDULE_1F1B) {
        broken(out, "SCH-P2P-BLOCKING", "use asynchronous p2p",
               "blocking p2p is modelled for 1f1b and interleaved, not %s", facts->name);
    }
    if (s->ep_overlap && s->kind != ORR_SCHEDULE_INTERLEAVED) {
        broken(out, "SCH-EP-OVERLAP", "use interleaved, or do not overlap expert parallelism",
               "overlapped expert all-to-all needs the interleaved schedule, not %s", facts->name);
    }
    if (s->ep_overlap && s->pp > 1 && s->vpp < 2) {
        broken(out, "SCH-EP-OVERLAP-VPP", "use two or more chunks a rank",
               "overlapped expert all-to-all needs vpp > 1 when pp is %u", s->pp);
    }
    if (s->ep_overlap && s->p2p == ORR_P2P_BLOCKING) {
        broken(out, "SCH-EP-OVERLAP-P2P", "overlap p2p too",
               "overlapped expert all-to-all needs overlapped p2p");
    }
}

/* Groups must be at least pp long, the last one too: else a rank waits for an op that comes later
 * in its own list. */
static void check_group(const orr_schedule_spec *s, rule_list *out) {
    uint32_t m = s->micro_batches, group = s->group == 0 ? s->pp : s->group;
    if (s->group > m) {
        broken(out, "SCH-INTERLEAVED-GROUP-LONG", "use a group of at most the micro-batches",
               "interleaved groups of %u micro-batches exceed the %u there are", s->group, m);
        return;
    }
    if (s->pp <= 1 || s->vpp <= 1) {
        return;
    }
    /* Shorter than pp is fine when one group holds all: every forward is then in warm-up order. */
    if (group < s->pp && group < m) {
        broken(out, "SCH-INTERLEAVED-GROUP", "use a group of at least pp micro-batches",
               "interleaved groups of %u micro-batches are shorter than pp %u", group, s->pp);
    } else if (m % group != 0 && m % group < s->pp && m > group) {
        broken(out, "SCH-INTERLEAVED-LAST-GROUP",
               "make micro-batches a multiple of the group, or the rest at least pp",
               "%u micro-batches leave a last group of %u, shorter than pp %u", m, m % group,
               s->pp);
    } else if (m < s->pp && s->group == 0) {
        broken(out, "SCH-INTERLEAVED-FEW", "use at least pp micro-batches",
               "interleaved needs at least pp %u micro-batches, not %u", s->pp, m);
    }
}

static void check_enough(const orr_schedule_spec *s, const kind_facts *facts, uint32_t least,
                         rule_list *out) {
    if (s->micro_batches < least) {
        broken(out, "SCH-FEW-MICRO-BATCHES", "use more micro-batches or fewer ranks",
               "%s on %u ranks needs at least %u micro-batches, not %u", facts->name, s->pp, least,
               s->micro_batches);
    }
}

/* Slots that the search goes through: building blocks tried, times ranks, times slots of a rank. */
static const uint64_t MOST_SEARCHED = 1ull << 30;

static uint64_t adaptive_cost(const orr_schedule_spec *s) {
    uint64_t blocks = 900ull * (s->pp - 1), slots = 6ull * (4ull * s->pp + s->micro_batches);
    return blocks * s->pp * slots;
}

static void check_kind(const orr_schedule_spec *s, const kind_facts *facts, rule_list *out) {
    switch ((orr_schedule_kind)s->kind) {
    case ORR_SCHEDULE_INTERLEAVED:
    case ORR_SCHEDULE_INTERLEAVED_ZB: check_group(s, out); break;
    case ORR_SCHEDULE_ZB_H1:
    case ORR_SCHEDULE_LOOPED_BFS: check_enough(s, facts, s->pp, out); break;
    case ORR_SCHEDULE_ZB_H2: check_enough(s, facts, 2 * s->pp - 1, out); break;
    case ORR_SCHEDULE_DUALPIPE:
    case ORR_SCHEDULE_DUALPIPEV: check_enough(s, facts, 2 * s->pp, out); break;
    case ORR_SCHEDULE_V_ADAPTIVE:
        if (s->pp < 2) {
            broken(out, "SCH-ADAPTIVE-PP", "use two or more ranks",
                   "v-adaptive needs at least 2 ranks");
        }
        if (adaptive_cost(s) > MOST_SEARCHED) {
            broken(out, "SCH-ADAPTIVE-SIZE", "use v-half, v-min or zbv at this size",
                   "searching v-adaptive on %u ranks with %u micro-batches takes too long", s->pp,
                   s->micro_batches);
        }
        if (s->memory_limit == 1) {
            broken(out, "SCH-MEMORY", "allow two or more chunks in flight",
                   "v-adaptive cannot run with 1 chunk in flight");
        }
        break;
    case ORR_SCHEDULE_GROUPED:
        if (s->group > s->pp) {
            broken(out, "SCH-GROUPED-GROUP", "use a group of at most pp micro-batches",
                   "grouped building blocks of %u micro-batches exceed pp %u", s->group, s->pp);
        }
        break;
    case ORR_SCHEDULE_1F1B:
    case ORR_SCHEDULE_GPIPE:
    case ORR_SCHEDULE_ZB_1P:
    case ORR_SCHEDULE_ZB_2P:
    case ORR_SCHEDULE_ZBV:
    case ORR_SCHEDULE_V_HALF:
    case ORR_SCHEDULE_V_MIN:
    case ORR_SCHEDULE_ZBV_AUTO:
    case ORR_SCHEDULE_V_HALF_PRIMUS:
    case ORR_SCHEDULE_V_MIN_PRIMUS:
    case ORR_SCHEDULE_V_1F1B:
    case ORR_SCHEDULE_HANAYO:
    case ORR_SCHEDULE_CHIMERA:
    case ORR_SCHEDULE_ZB_AUTO:
    case ORR_SCHEDULE_ZB_H1_PRIMUS:
    case ORR_SCHEDULE_USER:
    case ORR_SCHEDULE_COUNT: break;
    }
}

uint32_t orr_schedule_check(const orr_schedule_spec *spec, orr_schedule_rule *rules, uint32_t max) {
    rule_list out = {rules, max, 0};
    check_size(spec, &out);
    if (out.count == 0) {
        const kind_facts *facts = orr_schedule_facts((orr_schedule_kind)spec->kind);
        check_placement(spec, facts, &out);
        check_p2p(spec, facts, &out);
        check_kind(spec, facts, &out);
    }
    return out.count;
}
