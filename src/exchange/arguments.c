/* Arguments of Megatron-LM as a training log lists them. */
#include <string.h>

#include "exchange/exchange_int.h"

/* Text of a Python value as a value of a YAML file; NULL: None. */
static const char *python_value(orr_arena *arena, const char *text) {
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]) != NULL) {
        length--;
    }
    char *value = orr_arena_copy(arena, text, length);
    if (strcmp(value, "None") == 0 || length == 0) {
        return NULL;
    }
    if (strcmp(value, "True") == 0 || strcmp(value, "False") == 0) {
        return value[0] == 'T' ? "true" : "false";
    }
    if (value[0] == '[') { /* lists become words */
        for (char *p = value; *p != '\0'; p++) {
            *p = strchr("[],'\"", *p) != NULL ? ' ' : *p;
        }
        return value + strspn(value, " ");
    }
    return value;
}

orr_status orr_import_arguments(orr_arena *arena, const char *name, const orr_tree *arguments,
                                orr_import *out, orr_err *err) {
    (void)err;
    importer im = orr_import_start(arena, name);
    settings list = {0};
    for (size_t i = 0; i < orr_tree_size(arguments); i++) {
        const char *key = orr_tree_key(arguments, i);
        const char *value = python_value(arena, orr_tree_text(orr_tree_at(arguments, i), ""));
        if (value != NULL && *value != '\0' && orr_megatron_knows(key)) {
            orr_settings_add(arena, &list, (setting){.name = key, .value = value, .typed = true});
        }
    }
    int64_t world = 0;
    const char *text = orr_tree_text(orr_tree_get(arguments, "world_size"), "");
    megatron_ground ground = {.model_name = orr_import_stem(arena, name)};
    if (orr_parse_int(text + strspn(text, " "), &world) && world > 0 && world <= 1 << 20) {
        ground.gpus = (uint32_t)world;
        orr_import_put_int(&im, "gpus", world, 0);
    }
    orr_megatron_keys(&im, &list, &ground);
    orr_import_finish(&im, "megatron-arguments", out);
    return ORR_OK;
}
