/* Optimisation ladders: runs of one source that add one change after the other. Each step's change
 * is held against the projected one: sign, size, and the order of the steps.
 *
 * Which rows are steps, and which of them a plan cannot say, says data/study/rules.yaml (`ladder`);
 * the latter are listed and not counted. A ladder is what follows one another
 * in the table with the same source, model, accelerator and count. The change is named by the row's
 * note, from the first colon to the next semicolon. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "study/study_int.h"

/* Two runs of one configuration differ by as much; no sign is told below it. */
static const double NOISE_FRAC = 0.01;

static bool is_step(const orr_curator *curator, orr_arena *arena, const orr_judged *row) {
    return row->skipped == NULL &&
           orr_tree_size(orr_curate_facts(curator, arena, row->run, "ladder")) > 0;
}

static bool same_ladder(const orr_judged *a, const orr_judged *b) {
    return strcmp(a->run->source, b->run->source) == 0 &&
           strcmp(a->run->model, b->run->model) == 0 && strcmp(a->run->gpu, b->run->gpu) == 0 &&
           !(a->run->num_gpus < b->run->num_gpus) && !(a->run->num_gpus > b->run->num_gpus);
}

/* "cumulative: +DeepEP; memory ..." is "+DeepEP". */
static const char *lever_of(orr_arena *arena, const orr_run *run) {
    const char *from = strchr(run->notes, ':');
    from = from == NULL ? run->notes : from + 1;
    while (*from == ' ') {
        from++;
    }
    return orr_arena_format(arena, "%.*s", (int)strcspn(from, ";"), from);
}

static int sign_of(double gain) {
    return gain > NOISE_FRAC ? 1 : gain < -NOISE_FRAC ? -1 : 0;
}

static bool in_plan(const orr_curator *curator, orr_arena *arena, const orr_judged *row) {
    const orr_tree *facts = orr_curate_facts(curator, arena, row->run, "ladder");
    return orr_tree_bool(orr_tree_get(facts, "in_plan"), true);
}

typedef struct tally {
    uint32_t told, right; /* changes whose measured sign can be told; of these, projected alike */
    uint32_t beyond;      /* changes that a plan cannot say */
} tally;

static orr_tree *step_tree(const orr_curator *curator, orr_arena *arena, const orr_judged *row,
                           const orr_judged *before, tally *sum) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "index", row->run->index);
    orr_tree_put_text(arena, map, "lever", lever_of(arena, row->run));
    orr_tree_put_real(arena, map, "measured", row->measured);
    orr_tree_put_real(arena, map, "projected", row->projected);
    orr_tree_put_real(arena, map, "error", orr_judged_error(row));
    if (before != NULL) {
        double measured = row->measured / before->measured - 1;
        double projected = row->projected / before->projected - 1;
        orr_tree_put_real(arena, map, "measured_gain", measured);
        orr_tree_put_real(arena, map, "projected_gain", projected);
        bool said = in_plan(curator, arena, row);
        bool told = said && sign_of(measured) != 0;
        bool right = sign_of(measured) * projected > 0;
        orr_tree_put_text(arena, map, "sign",
                          !said   ? "not in a plan"
                          : !told ? "within noise"
                          : right ? "right"
                                  : "wrong");
        sum->beyond += !said;
        sum->told += told;
        sum->right += told && right;
    }
    return map;
}

static orr_tree *ladder_tree(const orr_curator *curator, orr_arena *arena,
                             const orr_judged *const *step, uint32_t count) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "source", step[0]->run->source);
    orr_tree_put_text(arena, map, "model", step[0]->run->model);
    orr_tree_put_text(arena, map, "gpu", step[0]->gpu);
    orr_tree_put_int(arena, map, "gpus", step[0]->resolved->plan.gpus);
    orr_tree *list = orr_tree_new_list(arena);
    tally sum = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        (void)orr_tree_push(arena, list,
                            step_tree(curator, arena, step[i], i > 0 ? step[i - 1] : NULL, &sum));
    }
    orr_tree_put_int(arena, map, "signs_told", sum.told);
    orr_tree_put_int(arena, map, "signs_right", sum.right);
    orr_tree_put_int(arena, map, "not_in_plan", sum.beyond);
    orr_tree_put_real(arena, map, "kendall_tau", orr_kendall(step, count));
    (void)orr_tree_put(arena, map, "steps", list);
    return map;
}

orr_tree *orr_judge_ladders(const orr_curator *curator, orr_arena *arena, const orr_judged *rows,
                            uint32_t count) {
    orr_tree *list = orr_tree_new_list(arena);
    const orr_judged **step = ORR_NEW_ARRAY(arena, const orr_judged *, count + 1);
    for (uint32_t i = 0, n; i < count; i += n > 0 ? n : 1) {
        for (n = 0; i + n < count && is_step(curator, arena, &rows[i + n]) &&
                    same_ladder(&rows[i], &rows[i + n]);
             n++) {
            step[n] = &rows[i + n];
        }
        if (n > 1) {
            (void)orr_tree_push(arena, list, ladder_tree(curator, arena, step, n));
        }
    }
    return list;
}
