/* Shared by the exporters: plan keys into a tree of foreign settings. */
#ifndef ORR_EXCHANGE_EXPORT_H
#define ORR_EXCHANGE_EXPORT_H

#include "base/text.h"
#include "exchange/exchange.h"

typedef struct exporter {
    orr_arena *arena;
    const orr_tree *keys;   /* plan keys, with what follows from others filled in */
    const orr_tree *model;  /* the card, NULL: known by name or not at all */
    const char *model_name; /* "" when there is none */
    orr_tree *out;          /* settings, nested; Megatron-LM's flat, by argument */
    orr_tree *lost;
    bool primus; /* its schedules and dispatches are known too */
} exporter;

/* Reading the plan. */
const orr_tree *orr_export_node(const exporter *x, const char *key); /* NULL: not stated */
int64_t orr_export_number(const exporter *x, const char *key, int64_t otherwise);
const char *orr_export_word(const exporter *x, const char *key);
bool orr_export_is(const exporter *x, const char *key, const char *value);
bool orr_export_on(const exporter *x, const char *key); /* true, "on" or "true" */
/* Whether a list, a comma-separated text, or "all" holds the word. */
bool orr_export_holds(const exporter *x, const char *key, const char *wanted);

/* Whether the model has experts; of one that is not known as a card, whether it is spread as if. */
bool orr_export_has_experts(const exporter *x);

/* Writing; a path "a.b" makes the map a. */
void orr_export_set(exporter *x, const char *path, orr_tree *value);
void orr_export_text(exporter *x, const char *path, const char *value);
void orr_export_int(exporter *x, const char *path, int64_t value);
void orr_export_flag(exporter *x, const char *path, bool value);
void orr_export_lose(exporter *x, const char *key, const char *value, const char *why);

/* Arguments of Megatron-LM, by name. */
void orr_export_fill_megatron(exporter *x);

/* Writers of a tree. Flags: "--name value" a line. */
char *orr_render_flags(orr_arena *arena, const orr_tree *out);
char *orr_render_yaml(orr_arena *arena, const orr_tree *out);
char *orr_render_toml(orr_arena *arena, const orr_tree *out);
/* "a.b=value" a line, with `prefix` before each ("--" of TorchTitan, "" of Hydra). */
char *orr_render_overrides(orr_arena *arena, const orr_tree *out, const char *prefix);
/* One value as it stands in a line of YAML, TOML or JSON. */
const char *orr_render_value(orr_arena *arena, const orr_tree *value);

#endif
