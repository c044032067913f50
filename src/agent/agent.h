/* The investigation: a language model that questions the projection with a belt of tools.
 *
 * The model proposes, tools judge: every number comes from the oracle, legality and memory are
 * checked in code, duplicates are recognised, and the answer is never worse than the search and the
 * baseline that it is given. The conversation is rebuilt every round from the problem card, a table
 * of trials and the notes, so that it stays small. docs/internals/agent.md. */
#ifndef ORR_AGENT_H
#define ORR_AGENT_H

#include "belt/belt.h"
#include "llm/llm.h"

typedef struct orr_agent_limits {
    uint32_t rounds, turns; /* turns of the model in a round */
    uint32_t patience;      /* rounds without gain before it ends */
    uint32_t tool_calls;    /* of all rounds */
    uint32_t evaluations;   /* trials that are projected */
    double device_s;        /* of measuring */
    uint32_t device_trials; /* measurements that are run */
    uint32_t expert_calls;  /* of all roles */
    uint32_t context_tok;   /* of the model; a round ends before it is full. 0: unknown */
    uint32_t max_out_tok;   /* of a turn */
} orr_agent_limits;
orr_agent_limits orr_agent_limits_default(void);

typedef struct orr_agent_task {
    const orr_oracle *oracle;
    const orr_tree *base;        /* arguments of project: the workload and the plan to start from */
    const orr_tree *search;      /* result of tune for it; NULL when there was none */
    const orr_tree *search_args; /* what tune was given beside the base: pin, range, threads ... */
    const orr_tree *measured;    /* replay device: list of {plan, tokens_per_s_per_gpu}, or NULL */
    const char *guidance;        /* of the user; may be NULL */
    const char *tools;           /* names with commas: only these are given; NULL: all */
    bool blind;                  /* the model does not see the search's plans */
    bool fairness;               /* the same budget to random and hill-climbing */
    orr_agent_limits limits;
} orr_agent_task;

/* Runs to an end that it names; only a cancelled oracle, or a workload that cannot be read, is an
 * error. out: {provider, model, stopped, best, baseline, trials, notes, rationale, measurements,
 * fairness, spent}. */
orr_status orr_agent_investigate(const orr_agent_task *task, orr_llm_client *client,
                                 orr_arena *arena, orr_tree *out, orr_err *err);

/* Best-so-far of methods that need no model, over the same axes and as many evaluations. */
typedef struct orr_agent_trace {
    double best;    /* tokens/s/GPU of a plan that fits; 0: none */
    uint32_t count; /* evaluations used */
    double *so_far; /* [count] */
} orr_agent_trace;
orr_status orr_agent_random(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *search_args, uint32_t evaluations, uint64_t seed,
                            orr_agent_trace *out, orr_err *err);
orr_status orr_agent_hill_climb(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                                const orr_tree *search_args, uint32_t evaluations, uint64_t seed,
                                orr_agent_trace *out, orr_err *err);
/* The axes that a search leaves open: not those it pins, nor, unless it ranges over them, those
 * that change what is computed. */
void orr_agent_close_axes(orr_belt_axis *axis, uint32_t *count, const orr_tree *search_args);

/* A prompt of data/prompts without its version line; NULL when there is none. */
const char *orr_agent_prompt(orr_arena *arena, const char *name);
/* The tools, with the plan keys of the axes; ORR_E_INTERNAL when the file is wrong. */
orr_status orr_agent_tools(orr_arena *arena, const orr_belt_axis *axis, uint32_t axis_count,
                           const orr_llm_tool **out, uint32_t *count, orr_err *err);

/* Harmless questions to an endpoint: does it answer, stream, count tokens, and in which way does it
 * call tools? {checks, quirks, model, usable, llm_calls, why}. */
orr_tree *orr_agent_doctor(orr_llm_client *client, orr_arena *arena);

#endif
