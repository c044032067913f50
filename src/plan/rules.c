/* Legality: every rule stands once in a table, with its effect and the check that words it. */
#include <stdarg.h>

#include "plan/plan_int.h"

static const rule_list *const lists[] = {&orr_rules_groups, &orr_rules_pipeline, &orr_rules_experts,
                                         &orr_rules_numeric, &orr_rules_adapters};
enum { LISTS = sizeof lists / sizeof *lists };

bool orr_rule_say(rule_note *note, const char *format, ...) {
    if (note != NULL) {
        va_list args;
        va_start(args, format);
        note->message = orr_arena_vformat(note->arena, format, args);
        va_end(args);
    }
    return true;
}

void orr_rule_hint(rule_note *note, const char *format, ...) {
    if (note != NULL) {
        va_list args;
        va_start(args, format);
        note->hint = orr_arena_vformat(note->arena, format, args);
        va_end(args);
    }
}

void orr_rule_nearest(rule_note *note, const char *key, const orr_resolved *r, uint32_t value,
                      uint32_t limit, bool (*fits)(const orr_resolved *, uint32_t)) {
    if (note == NULL) {
        return;
    }
    uint32_t below = orr_min_u32(value, limit + 1), above = value;
    do {
        below--;
    } while (below > 0 && below != UINT32_MAX && !fits(r, below));
    do {
        above++;
    } while (above <= limit && !fits(r, above));
    bool has_below = below > 0 && below != UINT32_MAX, has_above = above <= limit;
    if (has_below && has_above) {
        orr_rule_hint(note, "use %s %u or %u", key, below, above);
    } else if (has_below || has_above) {
        orr_rule_hint(note, "use %s %u", key, has_below ? below : above);
    }
}

uint32_t orr_plan_check(orr_arena *arena, const orr_resolved *resolved, orr_violation *violations) {
    uint32_t count = 0;
    for (uint32_t effect = ORR_RULE_ILLEGAL; effect <= ORR_RULE_WARNING; effect++) {
        for (int l = 0; l < LISTS; l++) {
            for (size_t i = 0; i < lists[l]->count; i++) {
                const plan_rule *rule = &lists[l]->rules[i];
                rule_note note = {.arena = arena, .id = rule->id, .message = "", .hint = ""};
                if (rule->effect != effect || !rule->broken(resolved, &note)) {
                    continue;
                }
                if (count < ORR_MAX_VIOLATIONS) {
                    violations[count] = (orr_violation){.rule = note.id,
                                                        .effect = effect,
                                                        .message = note.message,
                                                        .hint = note.hint};
                }
                count++;
            }
        }
    }
    return count;
}

bool orr_plan_legal(const orr_resolved *resolved) {
    for (int l = 0; l < LISTS; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const plan_rule *rule = &lists[l]->rules[i];
            if (rule->effect != ORR_RULE_WARNING && rule->broken(resolved, NULL)) {
                return false;
            }
        }
    }
    return true;
}

orr_tree *orr_plan_rules(orr_arena *arena) {
    static const char *const effects[] = {"illegal", "does_not_start", "warning"};
    orr_tree *out = orr_tree_new_list(arena);
    for (int l = 0; l < LISTS; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const plan_rule *rule = &lists[l]->rules[i];
            orr_tree *entry = orr_tree_push(arena, out, orr_tree_new_map(arena));
            orr_tree_put_text(arena, entry, "id", rule->id);
            orr_tree_put_text(arena, entry, "effect", effects[rule->effect]);
            orr_tree_put_text(arena, entry, "summary", rule->summary);
        }
    }
    return out;
}
