/* Megatron-LM settings by argument, with defaults: the view that the two halves of the reading
 * (plan, model) share. */
#ifndef ORR_EXCHANGE_MEGATRON_INT_H
#define ORR_EXCHANGE_MEGATRON_INT_H

#include "exchange/exchange_int.h"

enum { MEGATRON_MAX_LAYERS = 4096 };

typedef struct megatron {
    importer *im;
    const setting **given; /* by row of orr_megatron_args; NULL: not given */
    const megatron_ground *ground;
} megatron;

/* megatron_settings.c */
/* Takes one setting in: checks it, says what it leaves unread, keeps the last of each argument. */
void orr_megatron_gather(megatron *m, const setting *s);
/* The last setting of an argument, NULL when not given. */
const setting *orr_megatron_given(const megatron *m, const char *name);
/* Whether the value can be used: given and known, or not given and defaulted. */
bool orr_megatron_has(const megatron *m, const char *name);
bool orr_megatron_flag(const megatron *m, const char *name);
/* Numbers and words with Megatron's defaults; 0 and "" when there is none. A value that is not a
 * number was reported when the settings were gathered. */
int64_t orr_megatron_int(const megatron *m, const char *name);
double orr_megatron_real(const megatron *m, const char *name);
const char *orr_megatron_text(const megatron *m, const char *name);
uint32_t orr_megatron_line(const megatron *m, const char *name);
bool orr_megatron_is(const megatron *m, const char *name, const char *word);
/* A key of the plan from an argument that is a number. */
void orr_megatron_put_int(megatron *m, const char *key, const char *name);

/* A model that the file does not describe may have them: what it says of them is kept. */
bool orr_megatron_has_experts(const megatron *m);

/* Keys of a plan by what they are about. megatron_model.c: */
void orr_megatron_model(megatron *m);
/* megatron_split.c: */
void orr_megatron_pipeline(megatron *m);
void orr_megatron_split(megatron *m);
void orr_megatron_batch(megatron *m);
/* megatron_step.c: */
void orr_megatron_precision(megatron *m);
void orr_megatron_sharding(megatron *m);
void orr_megatron_overlap(megatron *m);
void orr_megatron_recompute(megatron *m);
void orr_megatron_offload(megatron *m);
void orr_megatron_kernels(megatron *m);

#endif
