/* Shared by the files of the investigation alone. */
#ifndef ORR_AGENT_INT_H
#define ORR_AGENT_INT_H

#include "agent/agent.h"
#include "agent/planner.h"
#include "base/map.h"

enum {
    AGENT_MAX_TRIALS = 512,
    AGENT_MAX_NOTES = 32,
    AGENT_MAX_MEASURED = 64,
    AGENT_NOTE_BYTES = 600,
    AGENT_RESULT_BYTES = 8 << 10, /* of a tool; about two thousand tokens */
    AGENT_WHY_BYTES = 400
};

typedef struct agent_trial {
    const orr_tree *overrides; /* of the base */
    orr_belt_plan plan;
    const char *source; /* baseline, search, model, model's search */
    const char *why;
    uint32_t round;
} agent_trial;

typedef struct agent_measurement {
    uint32_t trial;
    double tokens_per_s_per_gpu, device_s; /* 0 and 0: proposed, not run */
    bool run;
    const char *why;
} agent_measurement;

typedef struct agent {
    const orr_agent_task *task;
    orr_llm_client *client;
    orr_arena *arena;
    orr_belt_axis axis[ORR_BELT_MAX_AXES];
    uint32_t axis_count;
    const orr_llm_tool *tool;
    uint32_t tool_count;
    const char *instructions;

    agent_trial trial[AGENT_MAX_TRIALS];
    uint32_t trial_count;
    uint32_t best;        /* of those that fit; UINT32_MAX: none */
    uint32_t evaluations; /* the model's */
    uint32_t tool_calls, refused_calls, duplicates, rounds, expert_calls, device_trials;
    const char *last_call; /* of this round: name and arguments */
    const char *note[AGENT_MAX_NOTES];
    uint32_t note_count;
    agent_measurement measured[AGENT_MAX_MEASURED];
    uint32_t measured_count;
    double device_s;

    uint32_t submitted; /* a trial; UINT32_MAX: none yet */
    const char *rationale, *stopped;
    char device_id[AGENT_MAX_MEASURED][ORR_BELT_ID_BYTES];
    uint32_t device_count;
} agent;

/* trials.c: a plan into the table. *again: it was there already, nothing is spent. */
orr_status agent_try(agent *a, const orr_tree *overrides, const char *source, const char *why,
                     uint32_t *trial, bool *again, orr_err *err);
orr_tree *agent_row(const agent *a, orr_arena *arena, uint32_t trial);
/* Keys of a plan that are not the workload's: what makes it this plan. */
orr_tree *agent_overrides(const agent *a, const orr_tree *plan);
/* "pp 4 vpp 2 ..." of the axes. */
const char *agent_plan_text(const agent *a, orr_arena *arena, uint32_t trial);
/* One printable line of at most so many bytes. */
const char *agent_clean(orr_arena *arena, const char *text, size_t most);

/* card.c */
const char *agent_card(const agent *a, orr_arena *arena);
const char *agent_history(const agent *a, orr_arena *arena);

/* actions.c: what a call asks for. Never fails but for the oracle's sake. */
orr_status agent_act(agent *a, const orr_llm_call *call, const char **content, bool *is_error,
                     orr_err *err);

/* device.c */
orr_status agent_open_device(agent *a, orr_err *err);
/* False when the device has not measured that plan. */
bool agent_measure(agent *a, uint32_t trial, double *tokens_per_s_per_gpu);
/* A planner over the trials worth it, with what was measured; candidate_trial maps back. It lives
 * in the arena given. */
orr_status agent_plan_measurements(agent *a, orr_arena *arena, orr_planner *planner,
                                   uint32_t *candidate_trial, orr_err *err);

/* write.c */
orr_status agent_write(agent *a, orr_tree *out, orr_err *err);
void agent_record(const agent *a, const char *kind, orr_tree *entry);
/* The same with what is known of a trial's plan: its keys and bytes. */
void agent_record_plan(const agent *a, const char *kind, uint32_t trial, orr_tree *entry);

#endif
