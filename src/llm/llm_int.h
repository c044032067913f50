/* Shared by the adapters of this module alone. */
#ifndef ORR_LLM_INT_H
#define ORR_LLM_INT_H

#include "base/text.h"
#include "llm/llm.h"

enum { LLM_MAX_BLOCKS = 128 };

/* A part of an answer that comes in pieces: a text, a call, a thought. */
typedef struct llm_piece {
    int64_t index;        /* the provider's */
    const orr_tree *base; /* as it was announced */
    const char *id, *name;
    orr_text text, signature;
} llm_piece;

struct orr_llm_fold {
    orr_arena *arena;
    orr_llm_api api;
    llm_piece piece[LLM_MAX_BLOCKS];
    uint32_t piece_count;
    orr_text content, reasoning, refusal;
    const char *reasoning_key; /* what this server calls it */
    const orr_tree *head;      /* id, model ... of the answer */
    const orr_tree *stop, *usage, *final, *error;
    bool done;
};

/* The piece of that index, made when it is new; NULL beyond LLM_MAX_BLOCKS. */
llm_piece *llm_fold_piece(orr_llm_fold *fold, int64_t index);
/* JSON text as a map; NULL when it is none. Empty text is the empty map. */
const orr_tree *llm_args(orr_arena *arena, const char *text);
void llm_add_call(orr_arena *arena, orr_llm_reply *out, const char *id, const char *name,
                  const orr_tree *args);
/* name, description and parameters of a tool, and how calls are asked for: as both APIs of OpenAI
 * spell them. */
void llm_add_tool(orr_arena *arena, const orr_llm_endpoint *endpoint, const orr_llm_tool *tool,
                  orr_tree *out);
void llm_add_choice(orr_arena *arena, const orr_llm_endpoint *endpoint,
                    const orr_llm_request *request, orr_tree *body);
/* {type, code, message} of an error object in any provider's shape. */
const orr_tree *llm_error(orr_arena *arena, const orr_tree *from);
int64_t llm_int(const orr_tree *map, const char *path);

/* by_schema.c: calls as answers of one schema */
const char *llm_schema_prompt(orr_arena *arena, const orr_llm_request *request);
orr_tree *llm_schema_format(orr_arena *arena, const orr_llm_request *request);
void llm_schema_read(orr_arena *arena, orr_llm_reply *reply);

orr_tree *llm_chat_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                        const orr_llm_request *request);
orr_status llm_chat_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out, orr_err *err);
bool llm_chat_event(orr_llm_fold *fold, const orr_tree *data);
const orr_tree *llm_chat_whole(orr_llm_fold *fold);

orr_tree *llm_responses_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                             const orr_llm_request *request);
orr_status llm_responses_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out,
                              orr_err *err);
bool llm_responses_event(orr_llm_fold *fold, const orr_tree *data);

orr_tree *llm_anthropic_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                             const orr_llm_request *request);
orr_status llm_anthropic_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out,
                              orr_err *err);
bool llm_anthropic_event(orr_llm_fold *fold, const orr_tree *data);
const orr_tree *llm_anthropic_whole(orr_llm_fold *fold);

#endif
