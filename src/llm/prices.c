/* Prices from a file of the user's: none are built in, since they change and are not ours to tell.
 */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "llm/llm.h"

typedef struct price {
    const char *model, *provider;
    double in, cached_in, out;
} price;

#define PRICE(label, kind, member, low, text)                                                      \
    {.name = label,                                                                                \
     .type = ORR_FIELD_##kind,                                                                     \
     .offset = offsetof(price, member),                                                            \
     .min = low,                                                                                   \
     .max = 1e6,                                                                                   \
     .fallback = low < 0 ? "-1" : "",                                                              \
     .doc = text}
static const orr_field fields[] = {
    PRICE("model", TEXT, model, 0, "its name; a * at the end stands for any rest"),
    PRICE("provider", TEXT, provider, 0, "of data/llm, when the same name has another price there"),
    PRICE("in", REAL, in, -1, "dollars per million tokens that it reads"),
    PRICE("cached_in", REAL, cached_in, -1, "of those that it had read before; default: as in"),
    PRICE("out", REAL, out, -1, "dollars per million tokens that it writes"),
};
static const orr_schema schema = {
    .title = "price", .fields = fields, .count = sizeof fields / sizeof *fields};

static bool matches(const char *pattern, const char *name) {
    size_t length = strlen(pattern);
    return length > 0 && pattern[length - 1] == '*' ? strncmp(pattern, name, length - 1) == 0
                                                    : strcmp(pattern, name) == 0;
}

orr_status orr_llm_find_price(orr_arena *arena, const char *path, orr_llm_endpoint *endpoint,
                              orr_err *err) {
    orr_tree *file = NULL;
    ORR_TRY(orr_doc_read_file(arena, path, &file, err));
    const orr_tree *list = orr_tree_get(file, "prices");
    if (orr_tree_kind_of(list) != ORR_TREE_LIST) {
        return orr_fail(err, ORR_E_SCHEMA, "%s has no list 'prices'", path);
    }
    bool found = false;
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        price one = {0};
        ORR_TRY(orr_schema_read(&schema, arena, orr_tree_at(list, i), &one, NULL, err));
        if (one.model == NULL || one.in < 0 || one.out < 0) {
            return orr_fail(err, ORR_E_SCHEMA,
                            "price %zu of %s needs model, in and out, none below 0", i, path);
        }
        bool here = one.provider == NULL || strcmp(one.provider, endpoint->name) == 0;
        if (!found && here && matches(one.model, endpoint->model)) {
            endpoint->price_in = one.in;
            endpoint->price_cached = one.cached_in >= 0 ? one.cached_in : one.in;
            endpoint->price_out = one.out;
            found = true;
        }
    }
    return found ? ORR_OK
                 : orr_fail(err, ORR_E_NAME, "%s has no price for '%s' of %s", path,
                            endpoint->model, endpoint->name);
}
