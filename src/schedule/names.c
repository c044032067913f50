/* The kinds: names, aliases and what each implies. */
#include <string.h>

#include "base/text.h"
#include "schedule/schedule_int.h"

/* Aliases are the names that frameworks and published vectors use. */
static const kind_facts facts[ORR_SCHEDULE_COUNT] = {
    [ORR_SCHEDULE_1F1B] = {"1f1b", "non-interleaved", PLACE_LINEAR, 1, false, false, false},
    [ORR_SCHEDULE_INTERLEAVED] = {"interleaved", "interleaved-1f1b vpp interleaved-1f1b-ep-overlap",
                                  PLACE_LOOP, 0, false, false, true},
    [ORR_SCHEDULE_GPIPE] = {"gpipe", "", PLACE_LINEAR, 1, false, false, false},
    [ORR_SCHEDULE_ZB_H1] = {"zb-h1", "", PLACE_LINEAR, 1, true, false, false},
    [ORR_SCHEDULE_ZB_H2] = {"zb-h2", "", PLACE_LINEAR, 1, true, false, false},
    [ORR_SCHEDULE_ZB_1P] = {"zb-1p", "zb-auto-1p", PLACE_LINEAR, 1, true, true, false},
    [ORR_SCHEDULE_ZB_2P] = {"zb-2p", "zb-auto-2p", PLACE_LINEAR, 1, true, true, false},
    [ORR_SCHEDULE_ZBV] = {"zbv", "zbv-fixed zbv-formatted", PLACE_WAVE, 2, true, false, false},
    [ORR_SCHEDULE_V_HALF] = {"v-half", "", PLACE_WAVE, 2, true, false, false},
    [ORR_SCHEDULE_V_MIN] = {"v-min", "", PLACE_WAVE, 2, true, false, false},
    [ORR_SCHEDULE_DUALPIPE] = {"dualpipe", "", PLACE_TWO_WAY, 2, true, false, true},
    [ORR_SCHEDULE_DUALPIPEV] = {"dualpipev", "", PLACE_WAVE, 2, true, false, true},
    [ORR_SCHEDULE_INTERLEAVED_ZB] = {"interleaved-zb", "", PLACE_LOOP, 0, true, false, false},
    [ORR_SCHEDULE_LOOPED_BFS] = {"looped-bfs", "bfs", PLACE_LOOP, 0, false, false, false},
    [ORR_SCHEDULE_ZBV_AUTO] = {"zbv-auto", "", PLACE_WAVE, 2, true, true, false},
    [ORR_SCHEDULE_V_ADAPTIVE] = {"v-adaptive", "v-auto", PLACE_WAVE, 2, true, true, false},
    [ORR_SCHEDULE_V_HALF_PRIMUS] = {"v-half-primus", "zbv-greedy-half", PLACE_WAVE, 2, true, false,
                                    false},
    [ORR_SCHEDULE_V_MIN_PRIMUS] = {"v-min-primus", "zbv-greedy-min", PLACE_WAVE, 2, true, false,
                                   false},
    [ORR_SCHEDULE_V_1F1B] = {"v-1f1b", "1f1b-v", PLACE_WAVE, 2, false, false, false},
    [ORR_SCHEDULE_HANAYO] = {"hanayo", "wave", PLACE_WAVE, 0, false, false, false},
    [ORR_SCHEDULE_CHIMERA] = {"chimera", "", PLACE_TWO_WAY, 2, false, false, false},
    [ORR_SCHEDULE_GROUPED] = {"grouped", "grouped-interleaved-zb", PLACE_LOOP, 0, true, false,
                              false},
    [ORR_SCHEDULE_ZB_AUTO] = {"zb-auto", "", PLACE_LINEAR, 1, true, true, false},
    [ORR_SCHEDULE_ZB_H1_PRIMUS] = {"zb-h1-primus", "zerobubble", PLACE_LINEAR, 1, true, false,
                                   false},
    [ORR_SCHEDULE_USER] = {"user", "", PLACE_LINEAR, 0, true, false, true},
};

const kind_facts *orr_schedule_facts(orr_schedule_kind kind) {
    return &facts[kind];
}

const char *orr_schedule_name(orr_schedule_kind kind) {
    return kind >= 0 && kind < ORR_SCHEDULE_COUNT ? facts[kind].name : "?";
}

static bool among(const char *name, const char *list) {
    char one[64];
    while (*list != '\0') {
        size_t length = strcspn(list, " ");
        if (length < sizeof one) {
            memcpy(one, list, length);
            one[length] = '\0';
            if (orr_name_equal(name, one)) {
                return true;
            }
        }
        list += length;
        list += strspn(list, " ");
    }
    return false;
}

bool orr_schedule_find(const char *name, orr_schedule_kind *out) {
    for (int k = 0; k < ORR_SCHEDULE_COUNT; k++) {
        if (orr_name_equal(name, facts[k].name) || among(name, facts[k].aliases)) {
            *out = (orr_schedule_kind)k;
            return true;
        }
    }
    return false;
}

bool orr_schedule_needs_durations(orr_schedule_kind kind) {
    return facts[kind].timed;
}

orr_p2p_mode orr_schedule_default_p2p(orr_schedule_kind kind) {
    return kind == ORR_SCHEDULE_1F1B          ? ORR_P2P_BLOCKING
           : kind == ORR_SCHEDULE_INTERLEAVED ? ORR_P2P_OVERLAP
                                              : ORR_P2P_ASYNC;
}

uint32_t orr_schedule_fixed_vpp(orr_schedule_kind kind) {
    return facts[kind].vpp;
}

uint32_t orr_schedule_position(orr_schedule_kind kind, uint32_t pp, uint32_t rank, uint32_t chunk,
                               bool *second) {
    placement place = (placement)facts[kind].place;
    bool two_way = place == PLACE_TWO_WAY;
    if (second != NULL) {
        *second = two_way && chunk == 1;
    }
    bool back = (two_way || place == PLACE_WAVE) && chunk % 2 == 1;
    return (two_way ? 0 : chunk * pp) + (back ? pp - 1 - rank : rank);
}

bool orr_schedule_two_way(orr_schedule_kind kind) {
    return facts[kind].place == PLACE_TWO_WAY;
}

bool orr_schedule_splits_backward(orr_schedule_kind kind) {
    return facts[kind].split;
}
