/* Every rule of the table breaks where it should and holds nearby; a rule without a case fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/text.h"
#include "plan/plan.h"

/* A legal plan on a small machine, which the cases change. */
typedef struct fixture {
    orr_layer kind[1];
    uint8_t layer_kind[64];
    orr_model model;
    orr_accelerator accelerator;
    orr_cluster cluster;
    orr_software software;
    orr_resolved resolved;
    orr_arena *arena;
} fixture;

static void set_up(fixture *f) {
    *f = (fixture){.arena = orr_arena_new()};
    f->kind[0] = (orr_layer){
        .hidden = 4096,
        .norms = 2,
        .attention =
            {.causal = 1, .rope = 1, .heads = 32, .kv_heads = 8, .head_dim = 128, .v_dim = 128},
        .mlp = {.gated = 1, .ffn = 14336}};
    f->model = (orr_model){.name = "model",
                           .layers = 32,
                           .hidden = 4096,
                           .vocab = 128256,
                           .kind_count = 1,
                           .kind = f->kind,
                           .layer_kind = f->layer_kind};
    f->accelerator = (orr_accelerator){.name = "chip", .arch = ORR_ARCH_HOPPER};
    f->accelerator.peak_flops[ORR_BF16] = 1e15;
    f->accelerator.peak_flops[ORR_FP16] = 1e15;
    f->accelerator.peak_flops[ORR_FP8] = 2e15;
    f->cluster = (orr_cluster){.name = "cluster",
                               .accelerator = &f->accelerator,
                               .gpus = 1024,
                               .gpus_per_node = 8,
                               .tier_count = 1,
                               .tier = {{.name = "domain", .gpus = 8}}};
    f->software = (orr_software){.name = "software"};
    f->resolved =
        (orr_resolved){.model = &f->model, .cluster = &f->cluster, .software = &f->software};
    f->resolved.plan = (orr_plan){.gpus = 64,
                                  .gbs = 256,
                                  .split = {.tp = 1, .cp = 1, .ep = 1, .etp = 1},
                                  .pipe = {.pp = 1, .vpp = 1, .p2p = ORR_P2P_BLOCKING},
                                  .batch = {.mbs = 1, .seq = 8192},
                                  .numeric = {.param_bytes = 2,
                                              .grad_bytes = 4,
                                              .master_bytes = 4,
                                              .exp_avg_bytes = 4,
                                              .exp_avg_sq_bytes = 4},
                                  .shard = {.kind = ORR_SHARD_ZERO1}};
}

/* ---- "tp=4 heads=30": names of what a case changes --------------------------------------------
 */

typedef struct knob {
    const char *name;
    size_t offset, bytes;
} knob;

#define PLAN(label, member)                                                                        \
    {label, offsetof(fixture, resolved.plan.member), sizeof(((fixture *)0)->resolved.plan.member)}
#define LAYER(label, member)                                                                       \
    {label, offsetof(fixture, kind[0].member), sizeof(((fixture *)0)->kind[0].member)}
#define PART(label, member) {label, offsetof(fixture, member), sizeof(((fixture *)0)->member)}

static const knob knobs[] = {
    PLAN("gpus", gpus),
    PLAN("gbs", gbs),
    PLAN("overlap", overlap),
    PLAN("tp", split.tp),
    PLAN("cp", split.cp),
    PLAN("ep", split.ep),
    PLAN("etp", split.etp),
    PLAN("sp", split.sp),
    PLAN("cp_kind", split.cp_kind),
    PLAN("pp", pipe.pp),
    PLAN("vpp", pipe.vpp),
    PLAN("group", pipe.group),
    PLAN("schedule", pipe.schedule),
    PLAN("p2p", pipe.p2p),
    PLAN("split", pipe.split_flags),
    PLAN("placement", pipe.placement),
    PLAN("first", pipe.first_layers),
    PLAN("last", pipe.last_layers),
    PLAN("mbs", batch.mbs),
    PLAN("seq", batch.seq),
    PLAN("precision", numeric.precision),
    PLAN("optimizer", numeric.optimizer),
    PLAN("param_bytes", numeric.param_bytes),
    PLAN("master_bytes", numeric.master_bytes),
    PLAN("attention", variant.attention),
    PLAN("fp8_attention", variant.fp8_attention),
    PLAN("dispatch", variant.dispatch),
    PLAN("recompute", recompute.kind),
    PLAN("modules", recompute.modules),
    PLAN("recompute_layers", recompute.layers),
    PLAN("order", pipe.order),
    PLAN("lora", lora.rank),
    PLAN("targets", lora.targets),
    PLAN("base", lora.base),
    PLAN("sharding", shard.kind),
    PLAN("shard_group", shard.group),
    LAYER("heads", attention.heads),
    LAYER("kv_heads", attention.kv_heads),
    LAYER("head_dim", attention.head_dim),
    LAYER("attention_kind", attention.kind),
    LAYER("window", attention.window),
    LAYER("ffn", mlp.ffn),
    LAYER("gated", mlp.gated),
    LAYER("shared_ffn", mlp.shared_ffn),
    LAYER("experts", mlp.experts),
    LAYER("topk", mlp.topk),
    LAYER("expert_ffn", mlp.expert_ffn),
    PART("hidden", model.hidden),
    PART("layers", model.layers),
    PART("vocab", model.vocab),
    PART("mtp", model.mtp_layers),
    PART("max_seq", model.max_seq),
    PART("position", model.position),
    PART("arch", accelerator.arch),
    PART("cluster_gpus", cluster.gpus),
    PART("refuses", software.refuses),
};

static void turn(fixture *f, const char *name, uint32_t value) {
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        if (strcmp(knobs[i].name, name) == 0) {
            uint8_t small = (uint8_t)value;
            char *at = (char *)f + knobs[i].offset;
            memcpy(at, knobs[i].bytes == 1 ? (void *)&small : (void *)&value, knobs[i].bytes);
            return;
        }
    }
    fail_msg("no knob %s", name);
}

/* dp and micro-batches follow unless a case is about them. */
static void change(fixture *f, const char *text) {
    orr_plan *plan = &f->resolved.plan;
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, " ");
        char word[256];
        assert_true(length < sizeof word);
        memcpy(word, p, length);
        word[length] = '\0';
        p += length + strspn(p + length, " ");
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        int64_t number;
        if (strcmp(word, "layout") == 0) {
            orr_layout *layout;
            assert_int_equal(orr_layout_read(f->arena, value, &layout, NULL), ORR_OK);
            plan->layout = layout;
        } else {
            assert_true(orr_parse_int(value, &number));
            turn(f, word, (uint32_t)number);
        }
    }
    uint32_t ranks = plan->split.tp * plan->pipe.pp * plan->split.cp;
    plan->shard.dp = plan->gpus < ranks ? 1 : plan->gpus / ranks;
    plan->batch.micro_batches = plan->gbs / (plan->batch.mbs * plan->shard.dp);
    plan->batch.micro_batches += plan->batch.micro_batches == 0;
    if (plan->pipe.schedule != ORR_SCHEDULE_1F1B && strstr(text, "p2p=") == NULL) {
        plan->pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan->pipe.schedule);
    }
}

/* ---- cases ---------------------------------------------------------------------------------- */

typedef struct rule_case {
    const char *rule, *broken, *fine;
} rule_case;

#define MOE "ffn=0 experts=64 topk=4 expert_ffn=1536 "

/* Numbers of enumerations, as in plan.h and schedule.h: sharding 1 zero1, 2 zero2, 4 fsdp2, 5 hsdp;
 * schedule 1 interleaved, 3 zb-h1, 10 dualpipe; recompute 1 full, 2 selective, 3 block. */
static const rule_case cases[] = {
    {"PAR-GPUS-01", "gpus=60 tp=8", "gpus=56 tp=8 gbs=7"},
    {"PAR-GPUS-02", "gpus=64 cluster_gpus=32", "gpus=64 cluster_gpus=64"},
    {"PAR-GPUS-03", "gpus=60 gbs=60", "gpus=4 gbs=4"},
    {"PAR-TP-01", "heads=28 kv_heads=4 tp=8", "heads=28 kv_heads=4 tp=4"},
    {"PAR-TP-02", "kv_heads=6 heads=96 tp=4", "kv_heads=6 heads=96 tp=3"},
    {"PAR-TP-03", "hidden=4100 tp=8", "hidden=4100 tp=4"},
    {"PAR-TP-04", "ffn=14340 tp=8", "ffn=14340 tp=4"},
    {"PAR-TP-05", "kv_heads=4 tp=8", "kv_heads=8 tp=8"},
    {"PAR-TP-06", "tp=16 kv_heads=16", "tp=8 kv_heads=16"},
    {"PAR-SP-01", "tp=8 sp=1 seq=8196", "tp=4 sp=1 seq=8196"},
    {"PAR-CP-01", "cp=4 seq=8196", "cp=4 seq=8200"},
    {"PAR-CP-02", "cp=16 cp_kind=2 tp=4 kv_heads=32", "cp=8 cp_kind=2 tp=4 kv_heads=32"},
    {"PAR-CP-03", "cp=2 attention=1", "cp=2 attention=0"},
    {"PAR-CP-04", "cp=2 refuses=128", "cp=1 refuses=128"},
    {"PAR-CP-05", "cp=2 window=128", "cp=2 window=128 cp_kind=1"},
    {"BATCH-01", "gbs=100 mbs=2", "gbs=128 mbs=2"},
    {"BATCH-02", "position=0 max_seq=4096", "position=0 max_seq=8192"},
    {"SHARD-01", "shard_group=24", "shard_group=16"},
    {"SHARD-02", "sharding=5", "sharding=5 shard_group=8"},
    {"SHARD-03", "sharding=4 pp=4 refuses=4", "sharding=1 pp=4 refuses=4"},
    {"SHARD-04", MOE "sharding=4 ep=4 refuses=8", MOE "sharding=4 ep=1 refuses=8"},
    {"SHARD-05", "sharding=2 pp=4 refuses=16", "sharding=2 pp=4 refuses=0"},
    {"SHARD-06", "sharding=4 pp=4", "sharding=4 pp=1"},
    {"SHARD-07", "sharding=2 pp=4", "sharding=1 pp=4"},
    {"SHARD-08", "optimizer=2 sharding=4", "optimizer=2 sharding=1"},
    {"PIPE-LAYERS-01", "layers=30 pp=4", "layers=30 pp=4 split=3"},
    {"PIPE-LAYERS-02", "layers=30 pp=4 split=7 first=7 last=7",
     "layers=30 pp=4 split=4 first=7 last=7"},
    {"PIPE-LAYOUT-01", "layers=4 pp=2 vpp=1 layout=Et|t|t|tL",
     "layers=4 pp=2 vpp=2 schedule=1 layout=Et|t|t|tL"},
    {"PIPE-LAYOUT-02", "layers=5 pp=2 layout=Ett|ttL", "layers=4 pp=2 layout=Ett|ttL"},
    {"PIPE-LAYOUT-03", "layers=4 mtp=1 pp=2 vpp=2 schedule=1 layout=Et|tt|tm|L",
     "layers=4 mtp=1 pp=2 vpp=2 schedule=1 layout=Et|tt|t|mL"},
    {"PIPE-EMPTY-01", "placement=2 layers=2 hidden=2048 ffn=8192 vocab=131072 pp=16 gpus=16",
     "placement=2 layers=16 hidden=2048 ffn=8192 vocab=131072 pp=4 gpus=16"},
    {"SCH", "schedule=10 pp=4 vpp=2 gbs=64", "schedule=10 pp=4 vpp=2 gbs=128"},
    {"PIPE-FILL-01", "pp=8 gbs=48 refuses=1", "pp=8 gbs=56 refuses=1"},
    {"PIPE-FILL-02", "pp=8 gbs=56", "pp=8 gbs=64"},
    {"PIPE-VPP-01", "pp=4 vpp=2 schedule=1 refuses=64", "pp=4 vpp=1 refuses=64"},
    {"PIPE-VPP-02", "pp=1 vpp=2 schedule=1", "pp=2 vpp=2 schedule=1"},
    {"PIPE-VPP-03", "pp=4 vpp=1 schedule=1", "pp=4 vpp=2 schedule=1"},
    {"PIPE-P2P-01", "pp=2 vpp=2 schedule=1 p2p=1", "pp=4 vpp=2 schedule=1 p2p=1"},
    {"PIPE-P2P-02", "pp=4 vpp=2 schedule=1 p2p=3", "pp=4 vpp=2 schedule=1 p2p=3 group=8"},
    {"REC-01", "pp=4 schedule=3 recompute=1", "pp=4 schedule=10 vpp=2 recompute=1"},
    {"REC-02", "recompute=2 modules=64", "recompute=2 modules=64 attention_kind=1"},
    {"REC-03", "pp=4 recompute=3 recompute_layers=9", "pp=4 recompute=3 recompute_layers=8"},
    {"REC-04", "recompute=2 modules=1", "recompute=2 modules=1 attention=1"},
    {"MOE-EP-01", "ep=2", MOE "ep=2"},
    {"MOE-EP-02", MOE "experts=60 ep=8", MOE "experts=64 ep=8"},
    {"MOE-EP-03", MOE "ep=64 pp=4", MOE "ep=16 pp=4"},
    {"MOE-EP-04", MOE "ep=8 refuses=256", MOE "ep=8 refuses=0"},
    {"MOE-ETP-01", MOE "tp=4 etp=4 expert_ffn=1534", MOE "tp=2 etp=2 expert_ffn=1534"},
    {"MOE-CP-01", MOE "experts=60 ep=6 cp=4 gpus=24 gbs=6", MOE "ep=8 cp=4"},
    {"MOE-SP-01", MOE "tp=2 refuses=32", MOE "tp=2 sp=1 refuses=32"},
    {"MOE-FLAGS-01", "dispatch=2", MOE "ep=8 dispatch=2"},
    {"MOE-DISPATCH-01", MOE "ep=1 dispatch=2", MOE "ep=2 dispatch=2"},
    {"MOE-DISPATCH-02", MOE "ep=16", MOE "ep=16 dispatch=2"},
    {"MOE-OVERLAP-01", MOE "overlap=8", MOE "overlap=8 ep=8"},
    {"MOE-OVERLAP-02", MOE "overlap=8 ep=8 pp=4", MOE "overlap=8 ep=8 pp=4 vpp=2 schedule=1"},
    {"MOE-OVERLAP-03", MOE "overlap=8 ep=8 recompute=1",
     MOE "overlap=8 ep=8 recompute=2 modules=2"},
    {"MOE-OVERLAP-04", MOE "overlap=8 ep=8 dispatch=1", MOE "overlap=8 ep=8 dispatch=2"},
    {"NUM-PREC-01", "precision=6", "precision=2"},
    {"NUM-FP8-01", "precision=2 ffn=14344", "precision=0 ffn=14344"},
    {"NUM-FP8-02", "precision=2 seq=8200", "precision=2 seq=8208"},
    {"NUM-FP8-03", "param_bytes=1", "param_bytes=1 precision=2"},
    {"NUM-OPT-01", "master_bytes=0", "master_bytes=0 param_bytes=4"},
    {"MOE-ORDER-01", MOE "ep=8 pp=4 order=1", MOE "ep=8 pp=4 tp=8 order=1 sp=1"},
    {"LORA-01", "lora=16 targets=16 gated=0", "lora=16 targets=16"},
    {"LORA-02", "lora=12 targets=127 tp=8", "lora=16 targets=127 tp=8"},
    {"LORA-03", "base=2", "base=2 lora=16 targets=127"},
    {"LORA-04", "base=2 lora=16 targets=127 precision=2", "base=0 lora=16 targets=127 precision=2"},
    {"LORA-05", "lora=8192 targets=1", "lora=64 targets=1"},
    {"LORA-06", "base=3 lora=16 targets=127 tp=2", "base=3 lora=16 targets=127"},
    {"ATTN-01", "head_dim=288", "head_dim=256"},
    {"ATTN-02", "arch=0", "arch=0 attention=1"},
    {"ATTN-03", "fp8_attention=1 precision=2 arch=10", "fp8_attention=1 precision=2 arch=5"},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool names_rule(const char *found, const char *rule) {
    return strcmp(rule, "SCH") == 0 ? strncmp(found, "SCH-", 4) == 0 : strcmp(found, rule) == 0;
}

/* The violation of a rule, if there is one. */
static bool find_violation(fixture *f, const char *rule, orr_violation *out) {
    orr_violation found[ORR_MAX_VIOLATIONS];
    uint32_t count = orr_plan_check(f->arena, &f->resolved, found);
    assert_true(count <= ORR_MAX_VIOLATIONS);
    bool hard = false, hit = false;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || found[i - 1].effect <= found[i].effect);
        hard = hard || found[i].effect != ORR_RULE_WARNING;
        if (names_rule(found[i].rule, rule)) {
            *out = found[i];
            hit = true;
        }
    }
    assert_int_equal(orr_plan_legal(&f->resolved), !hard);
    return hit;
}

static void every_rule_breaks_and_holds(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        fixture f;
        orr_violation violation = {0};
        set_up(&f);
        change(&f, cases[i].broken);
        if (!find_violation(&f, cases[i].rule, &violation)) {
            fail_msg("%s holds for \"%s\"", cases[i].rule, cases[i].broken);
        }
        assert_true(strlen(violation.message) > 10);
        if (strlen(violation.hint) < 5) {
            fail_msg("%s gives no hint for \"%s\"", cases[i].rule, cases[i].broken);
        }
        orr_arena_free(f.arena);
        set_up(&f);
        change(&f, cases[i].fine);
        if (find_violation(&f, cases[i].rule, &violation)) {
            fail_msg("%s breaks for \"%s\": %s", cases[i].rule, cases[i].fine, violation.message);
        }
        orr_arena_free(f.arena);
    }
}

static void every_rule_has_a_case(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *rules = orr_plan_rules(arena);
    assert_true(orr_tree_size(rules) > 0);
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const char *id = orr_tree_text(orr_tree_get(orr_tree_at(rules, i), "id"), "");
        int found = 0;
        for (int c = 0; c < CASES; c++) {
            found += strcmp(cases[c].rule, id) == 0;
        }
        if (found != 1) {
            fail_msg("rule %s has %d cases", id, found);
        }
    }
    assert_int_equal(orr_tree_size(rules), CASES);
    orr_arena_free(arena);
}

/* docs/internals/legality.md says where each comes from. */
static void every_rule_has_an_origin(void **state) {
    (void)state;
    static char page[1 << 16];
    FILE *file = fopen(ORR_SOURCE_DIR "/docs/internals/legality.md", "rb");
    assert_non_null(file);
    size_t length = fread(page, 1, sizeof page - 1, file);
    (void)fclose(file);
    page[length] = '\0';
    orr_arena *arena = orr_arena_new();
    orr_tree *rules = orr_plan_rules(arena);
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const char *id = orr_tree_text(orr_tree_get(orr_tree_at(rules, i), "id"), "");
        if (strstr(page, id) == NULL) {
            fail_msg("docs/internals/legality.md does not name %s", id);
        }
    }
    orr_arena_free(arena);
}

static void the_plain_plan_breaks_nothing(void **state) {
    (void)state;
    fixture f;
    orr_violation found[ORR_MAX_VIOLATIONS];
    set_up(&f);
    change(&f, "");
    assert_int_equal(orr_plan_check(f.arena, &f.resolved, found), 0);
    assert_true(orr_plan_legal(&f.resolved));
    orr_arena_free(f.arena);
}

static void all_broken_rules_come_at_once(void **state) {
    (void)state;
    fixture f;
    orr_violation found[ORR_MAX_VIOLATIONS];
    set_up(&f);
    change(&f, "tp=3 layers=30 pp=4 gbs=257 seq=8190 precision=6");
    uint32_t count = orr_plan_check(f.arena, &f.resolved, found);
    assert_true(count >= 6);
    assert_int_equal(found[0].effect, ORR_RULE_ILLEGAL);
    orr_arena_free(f.arena);
}

static void hints_name_the_nearest_legal_values(void **state) {
    (void)state;
    static const char *const expected[][3] = {
        {"tp=3", "PAR-TP-01", "use tp 2 or 4"},
        {"gbs=100 mbs=2", "BATCH-01", "use gbs 128"},
        {"gbs=300 mbs=2", "BATCH-01", "use gbs 256 or 384"},
        {MOE "experts=60 ep=8", "MOE-EP-02", "use ep 4"},
        {"layers=80 pp=64 gbs=640 gpus=64", "PIPE-LAYERS-01", "use pp 40 or 80"},
        {"gpus=60 tp=8", "PAR-GPUS-01", "use gpus 56 or 64"},
        {"cp=3 seq=8192", "PAR-CP-01", "use cp 2 or 4"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        fixture f;
        orr_violation violation = {0};
        set_up(&f);
        change(&f, expected[i][0]);
        assert_true(find_violation(&f, expected[i][1], &violation));
        assert_int_equal(strncmp(violation.hint, expected[i][2], strlen(expected[i][2])), 0);
        orr_arena_free(f.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_breaks_and_holds),
        cmocka_unit_test(every_rule_has_a_case),
        cmocka_unit_test(every_rule_has_an_origin),
        cmocka_unit_test(the_plain_plan_breaks_nothing),
        cmocka_unit_test(all_broken_rules_come_at_once),
        cmocka_unit_test(hints_name_the_nearest_legal_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
