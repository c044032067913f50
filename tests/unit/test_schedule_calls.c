/* The transfers between ops against traces recorded by running Megatron-LM's schedules with stubs:
 * every post and every wait in its place. A trace holds ops, ["C", id, kinds] for a blocking call,
 * ["CA", id, kinds] for posts, ["WAIT", id, kind] for a wait for one transfer of call `id`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <dirent.h>
#include <jansson.h>

#include "schedule/schedule_int.h"

static const struct {
    const char *name;
    uint8_t bit;
} kinds[4] = {{"send_next", SEND_NEXT},
              {"recv_prev", RECV_PREV},
              {"send_prev", SEND_PREV},
              {"recv_next", RECV_NEXT}};

static uint8_t bit_named(const char *name) {
    for (int k = 0; k < 4; k++) {
        if (strcmp(kinds[k].name, name) == 0) {
            return kinds[k].bit;
        }
    }
    fail_msg("unknown transfer %s", name);
    return 0;
}

static uint8_t bits_of(const json_t *names) {
    uint8_t bits = 0;
    for (size_t i = 0; i < json_array_size(names); i++) {
        bits |= bit_named(json_string_value(json_array_get(names, i)));
    }
    return bits;
}

typedef struct counted {
    uint32_t posted[4];
    uint32_t *call_of[4]; /* id of the call that posted the k-th transfer of a kind */
    uint32_t calls;
} counted;

static void count_posts(counted *c, uint8_t what) {
    c->calls++;
    for (int k = 0; k < 4; k++) {
        if ((what & kinds[k].bit) != 0) {
            c->call_of[k][c->posted[k]++] = c->calls;
        }
    }
}

/* One entry of a trace against one item. */
static bool same_entry(const orr_order_view *v, const call_item *item, const json_t *entry,
                       counted *c) {
    if (json_is_string(entry)) {
        char name[ORR_SCHED_OP_TEXT];
        if (item->type != ITEM_OP) {
            return false;
        }
        orr_sched_op_format(&v->op[item->index], name);
        return strcmp(name, json_string_value(entry)) == 0;
    }
    const char *type = json_string_value(json_array_get(entry, 0));
    json_int_t id = json_integer_value(json_array_get(entry, 1));
    if (strcmp(type, "WAIT") == 0) {
        uint8_t bit = bit_named(json_string_value(json_array_get(entry, 2)));
        int k = 0;
        while (kinds[k].bit != bit) {
            k++;
        }
        return item->type == ITEM_WAIT && item->what == bit && c->call_of[k][item->index] == id;
    }
    bool blocking = strcmp(type, "C") == 0;
    if (item->type != (blocking ? ITEM_CALL : ITEM_POST) ||
        item->what != bits_of(json_array_get(entry, 2))) {
        return false;
    }
    count_posts(c, item->what);
    return c->calls == id;
}

static void compare_rank(orr_arena *arena, const orr_order *order, const call_lists *calls,
                         uint32_t rank, const json_t *trace) {
    orr_order_view v = orr_order_look(order);
    counted c = {0};
    for (int k = 0; k < 4; k++) {
        c.call_of[k] = ORR_NEW_ARRAY(arena, uint32_t, json_array_size(trace) + 1);
    }
    uint32_t first = calls->first[rank], count = calls->first[rank + 1] - first;
    for (uint32_t i = 0; i < count && i < json_array_size(trace); i++) {
        if (!same_entry(&v, &calls->item[first + i], json_array_get(trace, i), &c)) {
            fail_msg("rank %u entry %u differs", rank, i);
        }
    }
    assert_int_equal(count, json_array_size(trace));
}

static orr_schedule_spec spec_of(const json_t *root) {
    json_t *options = json_object_get(root, "options");
    const char *mode = json_string_value(json_object_get(json_object_get(root, "p2p"), "mode"));
    bool flush = json_is_true(json_object_get(options, "overlap_p2p_comm_warmup_flush"));
    orr_schedule_kind kind;
    assert_true(orr_schedule_find(json_string_value(json_object_get(root, "schedule")), &kind));
    return (orr_schedule_spec){
        .kind = (uint8_t)kind,
        .p2p = strcmp(mode, "blocking_rendezvous") == 0 ? ORR_P2P_BLOCKING
               : flush                                  ? ORR_P2P_OVERLAP_WARMUP_FLUSH
                                                        : ORR_P2P_OVERLAP,
        .pp = (uint32_t)json_integer_value(json_object_get(root, "pp")),
        .vpp = (uint32_t)json_integer_value(json_object_get(root, "vpp")),
        .micro_batches = (uint32_t)json_integer_value(json_object_get(root, "microbatches")),
        .group = (uint32_t)json_integer_value(
            json_object_get(options, "microbatch_group_size_per_vp_stage"))};
}

static uint32_t compare_folder(const char *folder) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        skip();
    }
    uint32_t compared = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        json_t *root = strstr(e->d_name, ".json") != NULL ? json_load_file(path, 0, NULL) : NULL;
        json_t *trace = json_object_get(root, "comm_trace");
        if (json_array_size(trace) > 0) {
            orr_arena *arena = orr_arena_new();
            orr_schedule_spec s = spec_of(root);
            const orr_order *order;
            call_lists calls;
            assert_int_equal(orr_order_build(arena, &s, NULL, &order, NULL), ORR_OK);
            orr_order_calls(arena, order, &calls);
            for (uint32_t r = 0; r < s.pp; r++) {
                compare_rank(arena, order, &calls, r, json_array_get(trace, r));
            }
            compared++;
            orr_arena_free(arena);
        }
        json_decref(root);
    }
    closedir(dir);
    print_message("%s: %u traces equal\n", folder, compared);
    return compared;
}

static void traces_kept_here(void **state) {
    (void)state;
    assert_true(compare_folder(ORR_TEST_DIR "/data/schedules") > 0);
}

static void traces_beside_the_checkout(void **state) {
    (void)state;
    assert_true(compare_folder(ORR_SHARED_DIR "/truth/schedules") > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_kept_here),
        cmocka_unit_test(traces_beside_the_checkout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
