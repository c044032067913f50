/* Providers by name or by URL, and where keys come from. */
#include <string.h>

#include "base/err.h"
#include "base/os_file.h"
#include "base/os_host.h"
#include "doc/catalog.h"
#include "doc/doc.h"
#include "llm/llm.h"

enum { MAX_KEY_BYTES = 4096 };

static const orr_catalog providers = {"llm", "LLM provider"};

static bool is_url(const char *target) {
    return strncmp(target, "http://", 7) == 0 || strncmp(target, "https://", 8) == 0;
}

/* The provider whose usual port the URL has; "compatible" for any other. */
static const char *guess(orr_arena *arena, const char *url) {
    const orr_tree *names = orr_catalog_names(arena, &providers);
    if (strstr(url, "api.anthropic.com") != NULL) {
        return "anthropic";
    }
    if (strstr(url, "api.openai.com") != NULL) {
        return "openai";
    }
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const char *name = orr_tree_text(orr_tree_at(names, i), ""), *stem = NULL;
        orr_tree *file = NULL;
        orr_err ignored = {0};
        if (orr_catalog_find(arena, &providers, name, &file, &stem, &ignored) == ORR_OK) {
            int64_t port = orr_tree_int(orr_tree_get(file, "port"), 0);
            const char *mark = orr_arena_format(arena, ":%lld", (long long)port);
            const char *at = port > 0 ? strstr(url + 7, mark) : NULL;
            if (at != NULL && (at[strlen(mark)] == '/' || at[strlen(mark)] == '\0')) {
                return name;
            }
        }
    }
    return "compatible";
}

static const char *without_slash(orr_arena *arena, const char *url) {
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/') {
        length--;
    }
    return orr_arena_copy(arena, url, length);
}

static orr_status read_quirks(const orr_tree *list, orr_llm_quirks *out, orr_err *err) {
    const struct {
        const char *name;
        bool *member;
    } known[] = {
        {"no_tool_choice", &out->no_tool_choice},    {"no_parallel", &out->no_parallel},
        {"no_stream_usage", &out->no_stream_usage},  {"no_strict", &out->no_strict},
        {"old_max_tokens", &out->old_max_tokens},    {"developer_role", &out->developer_role},
        {"args_are_objects", &out->args_are_objects}};
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const char *name = orr_tree_text(orr_tree_at(list, i), "");
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k].name, name) != 0) {
            k++;
        }
        if (k == sizeof known / sizeof *known) {
            return orr_fail(err, ORR_E_INTERNAL, "'%s' is no quirk of an LLM server", name);
        }
        *known[k].member = true;
    }
    return ORR_OK;
}

static orr_status read_api(const char *name, orr_llm_api *out, orr_err *err) {
    for (int i = ORR_LLM_CHAT; i <= ORR_LLM_ANTHROPIC; i++) {
        if (strcmp(name, orr_llm_api_name((orr_llm_api)i)) == 0) {
            *out = (orr_llm_api)i;
            return ORR_OK;
        }
    }
    return orr_fail(err, ORR_E_NAME, "'%s' is no LLM interface: chat, responses or anthropic",
                    name);
}

/* A key is one line of printable characters: anything else would change the request. */
static orr_status take_key(orr_arena *arena, const char *text, const char *from,
                           orr_llm_endpoint *out, orr_err *err) {
    size_t start = strspn(text, " \t\r\n"), end = strlen(text);
    while (end > start && strchr(" \t\r\n", text[end - 1]) != NULL) {
        end--;
    }
    for (size_t i = start; i < end; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return orr_fail(err, ORR_E_SCHEMA, "the key in %s is not one printable word", from);
        }
    }
    if (end > start) {
        out->key = orr_arena_copy(arena, text + start, end - start);
        out->key_from = from;
    }
    return ORR_OK;
}

static orr_status find_key(orr_arena *arena, const orr_tree *provider, const char *key_file,
                           orr_llm_endpoint *out, orr_err *err) {
    const char *file = key_file != NULL ? key_file : orr_os_env("ORRERY_API_KEY_FILE");
    if (file != NULL) {
        char *text = NULL;
        size_t length = 0;
        ORR_TRY(orr_os_read_file(arena, file, MAX_KEY_BYTES, &text, &length, err));
        return take_key(arena, text, orr_arena_text(arena, file), out, err);
    }
    const orr_tree *names = orr_tree_get(provider, "key_env");
    for (size_t i = 0; i < orr_tree_size(names) && out->key == NULL; i++) {
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        const char *value = orr_os_env(name);
        if (value != NULL) {
            ORR_TRY(take_key(arena, value, orr_arena_text(arena, name), out, err));
        }
    }
    return ORR_OK;
}

orr_status orr_llm_find(orr_arena *arena, const char *target, const char *api, const char *model,
                        const char *key_file, orr_llm_endpoint *out, orr_err *err) {
    orr_tree *provider = NULL;
    const char *stem = NULL;
    bool url = is_url(target);
    ORR_TRY(orr_catalog_find(arena, &providers, url ? guess(arena, target) : target, &provider,
                             &stem, err));
    *out = (orr_llm_endpoint){.name = stem,
                              .model = model,
                              .stream = true,
                              .temperature = -1,
                              .price_in = -1,
                              .price_cached = -1,
                              .price_out = -1};
    out->url =
        without_slash(arena, url ? target : orr_tree_text(orr_tree_get(provider, "url"), ""));
    if (orr_tree_bool(orr_tree_get(provider, "free"), false)) {
        out->price_in = out->price_cached = out->price_out = 0;
    }
    if (!is_url(out->url)) {
        return orr_fail(err, ORR_E_USAGE, "%s needs a URL, such as http://localhost:8080/v1", stem);
    }
    ORR_TRY(read_api(api != NULL ? api : orr_tree_text(orr_tree_get(provider, "api"), ""),
                     &out->api, err));
    ORR_TRY(read_quirks(orr_tree_get(provider, "quirks"), &out->quirks, err));
    /* A base that ends in /v1 serves Anthropic's path beside it. */
    size_t length = strlen(out->url);
    if (out->api == ORR_LLM_ANTHROPIC && length > 3 && strcmp(out->url + length - 3, "/v1") == 0) {
        out->url = orr_arena_copy(arena, out->url, length - 3);
    }
    return find_key(arena, provider, key_file, out, err);
}
