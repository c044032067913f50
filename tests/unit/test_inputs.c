/* Accelerators, clusters, fabrics and software profiles: catalogs, derivations, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/num.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "doc/doc.h"
#include "orrery/orrery.h"
#include "software/software.h"

static int set_up(void **state) {
    *state = orr_arena_new();
    return 0;
}

static int tear_down(void **state) {
    orr_arena_free(*state);
    return 0;
}

static orr_accelerator *accelerator(orr_arena *arena, const char *name) {
    orr_err err = {0};
    orr_accelerator *a = NULL;
    if (orr_accelerator_find(arena, name, &a, &err) != ORR_OK) {
        fail_msg("%s: %s (%s)", name, err.message, err.hint);
    }
    return a;
}

static orr_software *software(orr_arena *arena, const char *name) {
    orr_err err = {0};
    orr_software *s = NULL;
    if (orr_software_find(arena, name, &s, &err) != ORR_OK) {
        fail_msg("%s: %s (%s)", name, err.message, err.hint);
    }
    return s;
}

static orr_tree *parse(orr_arena *arena, const char *text) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    if (orr_doc_read(arena, "given.yaml", text, strlen(text), &tree, &err) != ORR_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return tree;
}

/* ---- accelerators --------------------------------------------------------------------------- */

static void data_sheets_hold_the_stated_figures(void **state) {
    static const struct {
        const char *name;
        double usable_gib, bf16_tflops;
        orr_topology topology;
    } known[] = {
        {"a100-80g", 79.15, 312, ORR_SWITCHED}, {"h100", 79.6, 989.4, ORR_SWITCHED},
        {"h200", 139.8, 989.4, ORR_SWITCHED},   {"mi300x", 191.98, 1307.4, ORR_MESH},
        {"mi325x", 255.98, 1307.4, ORR_MESH},   {"mi355x", 287.98, 2516.6, ORR_MESH},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const orr_accelerator *a = accelerator(*state, known[i].name);
        assert_float_equal((float)(a->usable_bytes / ORR_GIB), (float)known[i].usable_gib, 1e-4F);
        assert_float_equal((float)(a->peak_flops[ORR_BF16] / 1e12), (float)known[i].bf16_tflops,
                           1e-2F);
        assert_int_equal(a->topology, known[i].topology);
    }
    assert_true(accelerator(*state, "mi355x")->peer_Bps * 7 ==
                accelerator(*state, "mi355x")->link_Bps);
    assert_int_equal(accelerator(*state, "gb200")->domain, 72);
    assert_true(accelerator(*state, "h100")->peak_flops[ORR_NVFP4] <= 0);
}

static void every_accelerator_has_sources_and_survives_being_written(void **state) {
    const orr_tree *names = orr_accelerator_catalog(*state);
    assert_true(orr_tree_size(names) >= 38);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const orr_accelerator *a = accelerator(*state, orr_tree_text(orr_tree_at(names, i), ""));
        assert_non_null(orr_tree_get(a->sources, "usable"));
        assert_non_null(orr_tree_get(a->sources, "memory"));
        assert_true(strlen(a->source) > 10);
        assert_true(a->usable_bytes <= a->hbm_bytes && a->usable_bytes > 0.9 * a->hbm_bytes);
        orr_accelerator *again = NULL;
        orr_err err = {0};
        if (orr_accelerator_read(*state, orr_accelerator_write(*state, a), NULL, &again, &err) !=
            ORR_OK) {
            fail_msg("%s: %s", a->name, err.message);
        }
        assert_string_equal(a->name, again->name);
        assert_memory_equal(a->peak_flops, again->peak_flops, sizeof a->peak_flops);
        assert_memory_equal(&a->hbm_bytes, &again->hbm_bytes, sizeof(double));
        assert_int_equal(a->node, again->node);
    }
}

/* Every name that the measured runs use. */
static void published_names_are_known(void **state) {
    static const char *const names[] = {"A100",
                                        "A100-80GB",
                                        "A100-PCIe-80GB",
                                        "A100-SXM-40GB",
                                        "A100-SXM-80GB",
                                        "A800-SXM-80GB",
                                        "B200",
                                        "B300",
                                        "GB200",
                                        "GH200-96GB",
                                        "Gaudi2",
                                        "H100",
                                        "H100-96GB-HBM2e-500W",
                                        "H100-SXM-80GB",
                                        "H200",
                                        "H200-SXM-141GB",
                                        "H800",
                                        "H800-SXM-80GB",
                                        "MI250X (per GCD)",
                                        "MI250X-GCD",
                                        "MI300X",
                                        "MI325X",
                                        "MI355X",
                                        "RTX-4090-24GB",
                                        "TPU-v4",
                                        "TPU-v5e",
                                        "TPU-v5p",
                                        "TPU-v6e",
                                        "TPU-v7-Ironwood",
                                        "V100-32GB",
                                        "V100-SXM2-16GB",
                                        "V100-SXM2-32GB"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)accelerator(*state, names[i]);
    }
    orr_accelerator *a = NULL;
    orr_err err = {0};
    assert_int_equal(orr_accelerator_find(*state, "h10", &a, &err), ORR_E_NAME);
    assert_non_null(strstr(err.hint, "h100"));
}

/* As PyTorch, nvidia-smi and rocm-smi print them. */
static void drivers_names_are_known(void **state) {
    static const char *const names[][2] = {
        {"NVIDIA H100 80GB HBM3", "h100"},
        {"NVIDIA H100 PCIe", "h100-pcie"},
        {"NVIDIA A100-SXM4-40GB", "a100-40g"},
        {"NVIDIA A100 80GB PCIe", "a100-pcie"},
        {"NVIDIA GeForce RTX 4090", "rtx-4090"},
        {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"},
        {"Tesla V100-SXM2-32GB", "v100-32g"},
        {"AMD Instinct MI300X OAM", "mi300x"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(accelerator(*state, names[i][0])->name, names[i][1]);
    }
    orr_accelerator *a = NULL;
    orr_err err = {0};
    assert_int_equal(orr_accelerator_find(*state, "NVIDIA X1", &a, &err), ORR_E_NAME);
    assert_non_null(strstr(err.message, "NVIDIA X1"));
}

static void hypothetical_parts_take_one_line(void **state) {
    orr_accelerator *a = NULL;
    orr_err err = {0};
    const orr_tree *file = parse(*state, "{like: h200, hbm_Bps: x2, domain: 72, assumed: yes}");
    assert_int_equal(orr_accelerator_read(*state, file, "h200-fast", &a, &err), ORR_OK);
    assert_float_equal((float)(a->hbm_Bps / 9.6e12), 1.0F, 1e-6F);
    assert_int_equal(a->domain, 72);
    assert_true(a->assumed);
    assert_string_equal(a->title, "NVIDIA H200 SXM 141GB");
}

static void bad_hardware_is_refused(void **state) {
    static const struct {
        const char *text, *says;
        orr_status status;
    } bad[] = {
        {"{like: h1000}", "unknown accelerator", ORR_E_NAME},
        {"{like: h100, hbm: 3}", "hbm", ORR_E_SCHEMA},
        {"{like: h100, hbm_bytes: -1}", "hbm_bytes", ORR_E_SCHEMA},
        {"{like: h100, hbm_bytes: 12us}", "hbm_bytes", ORR_E_SCHEMA},
        {"{like: h100, usable_bytes: 90GiB}", "usable_bytes", ORR_E_CONFLICT},
        {"{like: h100, peer_Bps: 900GB/s}", "peer_Bps", ORR_E_CONFLICT},
        {"{like: h100, arch: hoper}", "arch", ORR_E_SCHEMA},
        {"{like: h100, peak: {bf16: 0, fp16: 0}}", "peak", ORR_E_SCHEMA},
        {"{title: x}", "lacks", ORR_E_SCHEMA},
        {"[h100]", "map", ORR_E_SCHEMA},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_accelerator *a = NULL;
        orr_err err = {0};
        orr_status status =
            orr_accelerator_read(*state, parse(*state, bad[i].text), "bad", &a, &err);
        if (status != bad[i].status || strstr(err.message, bad[i].says) == NULL) {
            fail_msg("%s gives %d: %s", bad[i].text, (int)status, err.message);
        }
    }
}

/* ---- clusters ------------------------------------------------------------------------------- */

static void usual_clusters_have_one_nic_each(void **state) {
    orr_err err = {0};
    orr_cluster *c = NULL;
    assert_int_equal(orr_cluster_usual(*state, accelerator(*state, "h100"), 64, 0, NULL, &c, &err),
                     ORR_OK);
    assert_int_equal(c->tier[0].gpus, 8);
    assert_int_equal(c->gpus_per_node, 8);
    assert_true(c->tier[1].Bps >= 50e9 && c->tier[1].Bps <= 50e9);
    assert_int_equal(
        orr_cluster_usual(*state, accelerator(*state, "a100-80g"), 64, 4, NULL, &c, &err), ORR_OK);
    assert_int_equal(c->tier[0].gpus, 4);
    assert_int_equal(orr_cluster_usual(*state, accelerator(*state, "h100"), 0, 0, NULL, &c, &err),
                     ORR_E_LIMIT);
}

/* What a plan without a cluster is told it runs on can be named and shown. */
static void usual_clusters_have_names(void **state) {
    const orr_tree *names = orr_accelerator_catalog(*state);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const char *chip = orr_tree_text(orr_tree_at(names, i), "");
        orr_cluster *c = NULL;
        orr_err err = {0};
        const char *name = orr_arena_format(*state, "%s-usual", chip);
        if (orr_cluster_find(*state, name, &c, &err) != ORR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        assert_string_equal(c->accelerator->name, chip);
        assert_string_equal(c->name, name);
        assert_true(strlen(c->source) > 10);
        assert_true(c->gpus == c->gpus_per_node && c->gpus > 0);
    }
    orr_cluster *c = NULL;
    orr_err err = {0};
    assert_int_equal(orr_cluster_find(*state, "h1000-usual", &c, &err), ORR_E_NAME);
    assert_int_equal(orr_cluster_find(*state, "-usual", &c, &err), ORR_E_NAME);
}

static void wide_domains_are_filled_evenly(void **state) {
    static const struct {
        uint32_t gpus, filled;
    } known[] = {{64, 72}, {72, 72}, {128, 64}, {256, 64}, {576, 72}, {1024, 64}};
    orr_err err = {0};
    orr_cluster *c = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(orr_cluster_usual(*state, accelerator(*state, "gb200"), known[i].gpus, 0,
                                           NULL, &c, &err),
                         ORR_OK);
        assert_int_equal(c->tier[0].gpus, known[i].filled);
    }
}

static void groups_lie_where_their_stride_puts_them(void **state) {
    static const struct {
        uint32_t size, stride, inner, domains, rivals;
    } known[] = {
        {8, 1, 8, 1, 1},  /* tensor parallel: a host */
        {16, 1, 8, 2, 1}, /* across two hosts, all NICs for one group */
        {8, 8, 1, 8, 8},  /* data parallel under tp 8: every rank of a host its own group */
        {16, 4, 2, 8, 4}, /* tp 4 */
        {2, 4, 2, 1, 4},  /* four pairs in a host */
        {4, 16, 1, 4, 8}, /* pipeline */
        {1, 1, 1, 1, 8},
    };
    orr_err err = {0};
    orr_cluster *c = NULL;
    assert_int_equal(orr_cluster_usual(*state, accelerator(*state, "h100"), 64, 0, NULL, &c, &err),
                     ORR_OK);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        orr_group g = orr_cluster_group(c, known[i].size, known[i].stride);
        assert_int_equal(g.size, known[i].size);
        assert_int_equal(g.inner, known[i].inner);
        assert_int_equal(g.domains, known[i].domains);
        assert_int_equal(g.rivals, known[i].rivals);
    }
}

static void the_last_domain_takes_what_the_others_leave(void **state) {
    static const struct {
        uint32_t size, stride, fewest;
    } known[] = {{16, 1, 8}, {12, 1, 4}, {9, 1, 1}, {6, 1, 6}, {6, 2, 2}, {8, 8, 1}, {1, 1, 1}};
    orr_err err = {0};
    orr_cluster *c = NULL;
    assert_int_equal(orr_cluster_usual(*state, accelerator(*state, "h100"), 64, 0, NULL, &c, &err),
                     ORR_OK);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        orr_group g = orr_cluster_group(c, known[i].size, known[i].stride);
        assert_int_equal(orr_group_fewest(g), known[i].fewest);
    }
}

static void catalog_clusters_and_fabrics_are_whole(void **state) {
    const orr_tree *names = orr_cluster_catalog(*state);
    assert_true(orr_tree_size(names) >= 10);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        orr_cluster *c = NULL;
        orr_cluster *again = NULL;
        orr_err err = {0};
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        if (orr_cluster_find(*state, name, &c, &err) != ORR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        assert_int_equal(orr_cluster_read(*state, orr_cluster_write(*state, c), NULL, &again, &err),
                         ORR_OK);
        assert_true(strlen(c->source) > 10);
        assert_int_equal(c->tier_count, again->tier_count);
        assert_memory_equal(&c->tier[1].Bps, &again->tier[1].Bps, sizeof(double));
    }
    names = orr_fabric_catalog(*state);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        orr_fabric *f = NULL;
        orr_fabric *again = NULL;
        orr_err err = {0};
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        if (orr_fabric_find(*state, name, &f, &err) != ORR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        assert_int_equal(orr_fabric_read(*state, orr_fabric_write(*state, f), NULL, &again, &err),
                         ORR_OK);
        assert_memory_equal(&f->hop_s, &again->hop_s, sizeof(double));
        assert_true(strlen(f->source) > 10);
    }
}

static void other_tuners_cluster_files_are_read_as_they_are(void **state) {
    const char *text = "target_cluster: {name: eight, num_nodes: 16, gpus_per_node: 8, gpu_arch: "
                       "mi355x, gpu_clock_mhz: 2400}\n"
                       "hardware_config: {node_bw: 537.6, pod_bw: 50, cluster_bw: 25, pod_size: "
                       "64, nics_per_node: 4, node_topology: mesh, bw_eff: 0.7, node_lat: 0.45}\n";
    orr_cluster *c = NULL;
    orr_err err = {0};
    assert_int_equal(orr_cluster_read(*state, parse(*state, text), "x", &c, &err), ORR_OK);
    assert_int_equal(c->gpus, 128);
    assert_string_equal(c->accelerator->name, "mi355x");
    assert_int_equal(c->tier_count, 3);
    assert_int_equal(c->tier[1].gpus, 64);
    assert_float_equal((float)(c->tier[0].Bps / 1e9), 537.6F, 1e-3F);
    assert_float_equal((float)(c->tier[1].Bps / 1e9), 25.0F, 1e-3F); /* two share a NIC */
    assert_float_equal((float)c->fabric->efficiency_frac, 0.7F, 1e-6F);
    static const char *const bad[] = {
        "hardware_config: {node_bw: 448}", "target_cluster: {gpu_arch: mi35x}",
        "target_cluster: {gpu_arch: mi355x, num_nodes: 0}",
        "{target_cluster: {gpu_arch: mi355x}, hardware_config: {pod_bw: fast}}",
        "target_cluster: {gpu_arch: mi355x, hardware_config: /no/such/file.yaml}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(orr_cluster_read(*state, parse(*state, bad[i]), "x", &c, &err),
                             ORR_OK);
    }
}

static void bad_clusters_are_refused(void **state) {
    static const struct {
        const char *text, *says;
        orr_status status;
    } bad[] = {
        {"{gpus: 8}", "accelerator", ORR_E_SCHEMA},
        {"{accelerator: h1000}", "unknown accelerator", ORR_E_NAME},
        {"{accelerator: h100, fabric: infinband}", "unknown fabric", ORR_E_NAME},
        {"{accelerator: h100, gpus: 0}", "gpus", ORR_E_SCHEMA},
        {"{accelerator: h100, gpus: 99999999}", "gpus", ORR_E_SCHEMA},
        {"{accelerator: h100, tiers: [{name: a, Bps: 1GB/s}]}", "tiers", ORR_E_SCHEMA},
        {"{accelerator: h100, tiers: [{name: a, gpus: 8, Bps: 1GB/s}, {name: b, gpus: 4, Bps: "
         "1GB/s}]}",
         "fewer", ORR_E_CONFLICT},
        {"{accelerator: h100, tiers: [{name: a, gpus: 8, Bps: 1s}, {name: b, Bps: 1GB/s}]}", "Bps",
         ORR_E_SCHEMA},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_cluster *c = NULL;
        orr_err err = {0};
        orr_status status = orr_cluster_read(*state, parse(*state, bad[i].text), "bad", &c, &err);
        if (status != bad[i].status || strstr(err.message, bad[i].says) == NULL) {
            fail_msg("%s gives %d: %s", bad[i].text, (int)status, err.message);
        }
    }
}

/* ---- software ------------------------------------------------------------------------------- */

static void profiles_differ_where_frameworks_do(void **state) {
    assert_int_equal(software(*state, "megatron-2021")->variant.attention, ORR_KERNEL_UNFUSED);
    assert_true(software(*state, "megatron-2021")->variant.hidden_dropout);
    assert_int_equal(software(*state, "megatron-core")->variant.attention, ORR_KERNEL_FLASH);
    assert_false(software(*state, "megatron-core")->variant.grad_fp32);
    assert_true(software(*state, "megatron-lm")->variant.grad_fp32);
    assert_int_equal(software(*state, "nanotron")->placement, ORR_PLACE_COST_WALK);
    assert_int_equal(software(*state, "torchtitan")->param_bytes, 4);
    assert_int_equal(software(*state, "mlperf")->graphs, 2);
    assert_false(software(*state, "unknown")->known);
    assert_true(software(*state, "unknown")->interval_dense_frac >
                software(*state, "megatron-core")->interval_dense_frac);
    assert_string_equal(software(*state, "mcore2024")->name, "megatron-core-2024");
}

static void published_profiles_are_known(void **state) {
    static const char *const names[] = {"nanotron",
                                        "mcore2024",
                                        "hagemann",
                                        "maxtext",
                                        "mcore2025",
                                        "mds2022",
                                        "foundry",
                                        "bigsci",
                                        "jax",
                                        "zb",
                                        "generic",
                                        "titan",
                                        "zero_hf",
                                        "simumax",
                                        "mlperf",
                                        "automodel",
                                        "primus-megatron",
                                        "fms",
                                        "mcore2022",
                                        "unknown",
                                        "hai",
                                        "megatron-deepspeed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)software(*state, names[i]);
    }
}

static void numbers_without_evidence_count_as_fitted(void **state) {
    static const struct {
        const char *text;
        uint32_t fitted;
    } known[] = {
        {"{time: {}}", 0},
        {"{time: {step_s: 1ms}}", 1},
        {"{time: {step_s: {value: 1ms, evidence: code}}}", 0},
        {"{time: {step_s: {value: 1ms, evidence: fitted, note: its rows}}}", 1},
        {"{time: {step_s: {value: 1ms, evidence: assumed}, host_fwd_s: {value: 1ms, evidence: "
         "measured}}}",
         1},
        {"{switches: {placement: {value: slots, evidence: fitted}}}", 0}, /* a switch, no number */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        orr_software *s = NULL;
        orr_err err = {0};
        if (orr_software_read(*state, parse(*state, known[i].text), "x", &s, &err) != ORR_OK) {
            fail_msg("%s: %s", known[i].text, err.message);
        }
        assert_int_equal(s->fitted_parameters, known[i].fitted);
    }
}

static void every_profile_states_its_evidence(void **state) {
    const orr_tree *names = orr_software_catalog(*state);
    assert_true(orr_tree_size(names) >= 16);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const orr_software *s = software(*state, orr_tree_text(orr_tree_at(names, i), ""));
        assert_true(strlen(s->source) > 20);
        assert_true(orr_tree_size(s->evidence) > 10);
        assert_true(s->interval_dense_frac > 0 && s->interval_moe_frac >= s->interval_dense_frac);
        orr_software *again = NULL;
        orr_err err = {0};
        if (orr_software_read(*state, orr_software_write(*state, s), NULL, &again, &err) !=
            ORR_OK) {
            fail_msg("%s: %s", s->name, err.message);
        }
        assert_memory_equal(&s->variant, &again->variant, sizeof s->variant);
        assert_int_equal(s->refuses, again->refuses);
        assert_int_equal(s->fitted_parameters, again->fitted_parameters);
        assert_memory_equal(&s->host_fwd_s, &again->host_fwd_s, sizeof(double));
    }
}

static void derived_profiles_replace_value_and_evidence(void **state) {
    orr_software *s = NULL;
    orr_err err = {0};
    const orr_tree *file =
        parse(*state, "{like: megatron-core, time: {step_s: {value: 5ms, evidence: measured}}}");
    assert_int_equal(orr_software_read(*state, file, "mine", &s, &err), ORR_OK);
    const orr_tree *step = orr_tree_get(s->evidence, "step_s");
    assert_string_equal(orr_tree_text(orr_tree_get(step, "evidence"), ""), "measured");
    assert_null(orr_tree_get(step, "note"));
    assert_int_equal(s->fitted_parameters,
                     software(*state, "megatron-core")->fitted_parameters - 1);
}

static void bad_profiles_are_refused(void **state) {
    static const struct {
        const char *text, *says;
        orr_status status;
    } bad[] = {
        {"{like: megatron-cor}", "unknown software profile", ORR_E_NAME},
        {"{like: [megatron-core]}", "must name", ORR_E_SCHEMA},
        {"{time: 3}", "map", ORR_E_SCHEMA},
        {"{tme: {}}", "tme", ORR_E_SCHEMA},
        {"{time: {step: 1ms}}", "step", ORR_E_SCHEMA},
        {"{time: {step_s: {value: 1ms, evidence: rumour}}}", "rumour", ORR_E_SCHEMA},
        {"{time: {step_s: {value: 1ms, nte: x}}}", "nte", ORR_E_SCHEMA},
        {"{time: {step_s: -1}}", "step_s", ORR_E_SCHEMA},
        {"{time: {tp_overlap_fwd_frac: 1.5}}", "tp_overlap_fwd_frac", ORR_E_SCHEMA},
        {"{variant: {attention: flsh}}", "flsh", ORR_E_SCHEMA},
        {"{switches: {refuses: [rain]}}", "rain", ORR_E_SCHEMA},
        {"7", "map", ORR_E_SCHEMA},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_software *s = NULL;
        orr_err err = {0};
        orr_status status = orr_software_read(*state, parse(*state, bad[i].text), "bad", &s, &err);
        if (status != bad[i].status || strstr(err.message, bad[i].says) == NULL) {
            fail_msg("%s gives %d: %s", bad[i].text, (int)status, err.message);
        }
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
/* ---- the shared table of data sheets -------------------------------------------------------- */

/* "67", "1677 (1835 paper)", "400-600": the first number, and the last of a range. */
static bool first_range(const char *cell, double *low, double *high) {
    char digits[32];
    cell += strspn(cell, "~");
    size_t length = strspn(cell, "0123456789.");
    if (length == 0 || length >= sizeof digits) {
        return false;
    }
    memcpy(digits, cell, length);
    digits[length] = '\0';
    if (!orr_parse_real(digits, low)) {
        return false;
    }
    *high = *low;
    if (cell[length] == '-' && (length = strspn(cell += length + 1, "0123456789.")) > 0) {
        memcpy(digits, cell, length);
        digits[length] = '\0';
        return orr_parse_real(digits, high);
    }
    return true;
}

/* A figure that differs is one that its source line sets against the data sheet's. */
static void assert_cell(const orr_accelerator *a, const char *what, const char *cell, double value,
                        const char *source) {
    double low = 0;
    double high = 0;
    if (!first_range(cell, &low, &high) || (value >= low * 0.999 && value <= high * 1.001)) {
        return;
    }
    const char *why = orr_tree_text(orr_tree_get(a->sources, source), "");
    const char *other = strstr(why, ", not the ");
    if (other == NULL || strncmp(other + strlen(", not the "), cell, strcspn(cell, " ")) != 0) {
        fail_msg("%s: %s is %g, the data sheet says %s, the source line %s", a->name, what, value,
                 cell, why);
    }
}

static const char *chip_of_row(const char *name) {
    static const char *const rows[][2] = {
        {"V100 SXM2 32GB", "v100-32g"},
        {"A100 SXM4 40GB", "a100-40g"},
        {"A100 SXM4 80GB", "a100-80g"},
        {"A100 PCIe 80GB", "a100-pcie"},
        {"A800 SXM4 80GB", "a800"},
        {"H100 SXM5 80GB", "h100"},
        {"H100 PCIe 80GB", "h100-pcie"},
        {"H800 SXM5 80GB", "h800"},
        {"H200 SXM 141GB", "h200"},
        {"H20 96GB", "h20"},
        {"GH200 96/144GB", "gh200"},
        {"B200 SXM 180GB", "b200"},
        {"GB200 (per GPU)", "gb200"},
        {"B300 SXM 288GB", "b300"},
        {"GB300 (per GPU)", "gb300"},
        {"L40S", "l40s"},
        {"RTX 4090", "rtx-4090"},
        {"RTX PRO 6000 Blackwell Server", "rtx-pro-6000"},
        {"MI210", "mi210"},
        {"MI250X (per GCD)", "mi250x"},
        {"MI300X", "mi300x"},
        {"MI308X", "mi308x"},
        {"MI325X", "mi325x"},
        {"MI350X", "mi350x"},
        {"MI355X", "mi355x"},
        {"Gaudi2", "gaudi2"},
        {"Gaudi3", "gaudi3"},
        {"TPU v4", "tpu-v4"},
        {"TPU v5e", "tpu-v5e"},
        {"TPU v5p", "tpu-v5p"},
        {"TPU v6e", "tpu-v6e"},
        {"TPU7x (Ironwood)", "tpu7x"},
        {"Trainium2", "trainium2"},
        {"MTT S5000", "mtt-s5000"},
        {"Ascend 910B", "ascend-910b"},
        {"Ascend 910C", "ascend-910c"},
        {"Ascend 950DT", "ascend-950dt"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i][0], name) == 0) {
            return rows[i][1];
        }
    }
    fail_msg("no accelerator of the catalog stands for \"%s\"", name);
    return NULL;
}

static const char *cell_of(const orr_csv *csv, const char *const *cells, const char *column) {
    int at = orr_csv_find(csv, column);
    assert_true(at >= 0);
    return cells[at];
}

static void check_row(orr_arena *arena, const orr_csv *csv, const char *const *cells) {
    const char *chip = chip_of_row(cell_of(csv, cells, "name"));
    const orr_accelerator *a = accelerator(arena, chip);
    double half = orr_max_f64(a->peak_flops[ORR_BF16], a->peak_flops[ORR_FP16]);
    const struct {
        const char *column;
        double value;
        const char *source;
    } figures[] = {
        {"bf16_fp16_tf", half / 1e12, "peak"},
        {"fp8_tf", a->peak_flops[ORR_FP8] / 1e12, "peak"},
        {"hbm_bw_gbs", a->hbm_Bps / 1e9, "memory"},
        {"intra_unidir_gbs_per_gpu", a->link_Bps / 1e9, "link"},
        {"intra_p2p_unidir_gbs", a->peer_Bps / 1e9, "link"},
        {"typical_nic_gbps_per_gpu", a->nic_Bps * 8 / 1e9, "network"},
        {"l2_mb", a->l2_bytes / 1e6, "memory"},
        {"tdp_w", a->tdp_w, "peak"},
        {"domain_gpus", a->domain, "link"},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        assert_cell(a, figures[i].column, cell_of(csv, cells, figures[i].column), figures[i].value,
                    figures[i].source);
    }
    if (a->clock_hz > 0) {
        assert_cell(a, "clock_boost_mhz", cell_of(csv, cells, "clock_boost_mhz"), a->clock_hz / 1e6,
                    "peak");
    }
    if (a->vendor == ORR_NVIDIA) { /* fp4 of others is not nvfp4 */
        assert_cell(a, "fp4_tf", cell_of(csv, cells, "fp4_tf"), a->peak_flops[ORR_NVFP4] / 1e12,
                    "peak");
    }
    if (a->vendor != ORR_VENDOR_OTHER) { /* others count cores of several kinds */
        assert_cell(a, "sm_or_cu_count", cell_of(csv, cells, "sm_or_cu_count"), a->units, "peak");
    }
    double gb = 0;
    double top = 0;
    assert_true(first_range(cell_of(csv, cells, "hbm_gb"), &gb, &top));
    assert_true(a->hbm_bytes >= gb * 1e9 && a->hbm_bytes <= gb * ORR_GIB); /* GB or GiB */
    assert_true(a->usable_bytes <= a->hbm_bytes);
    assert_non_null(orr_tree_text(orr_tree_get(a->sources, "usable"), NULL));
}

static void the_catalog_says_what_the_data_sheets_say(void **state) {
    const char *path = ORR_SHARED_DIR "/data/hardware.csv";
    char *text = NULL;
    size_t length = 0;
    orr_err err = {0};
    if (orr_file_read(*state, path, &text, &length, &err) != ORR_OK) {
        skip();
    }
    orr_csv *csv = NULL;
    const char *const *cells = NULL;
    bool more = true;
    uint32_t rows = 0;
    assert_int_equal(orr_csv_open(*state, path, text, length, &csv, &err), ORR_OK);
    while (orr_csv_next(csv, &cells, &more, &err) == ORR_OK && more) {
        check_row(*state, csv, cells);
        rows++;
    }
    assert_true(!more && rows >= 37);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(data_sheets_hold_the_stated_figures),
        TEST(every_accelerator_has_sources_and_survives_being_written),
        TEST(the_catalog_says_what_the_data_sheets_say),
        TEST(published_names_are_known),
        TEST(drivers_names_are_known),
        TEST(hypothetical_parts_take_one_line),
        TEST(bad_hardware_is_refused),
        TEST(usual_clusters_have_one_nic_each),
        TEST(usual_clusters_have_names),
        TEST(wide_domains_are_filled_evenly),
        TEST(groups_lie_where_their_stride_puts_them),
        TEST(the_last_domain_takes_what_the_others_leave),
        TEST(catalog_clusters_and_fabrics_are_whole),
        TEST(other_tuners_cluster_files_are_read_as_they_are),
        TEST(bad_clusters_are_refused),
        TEST(profiles_differ_where_frameworks_do),
        TEST(published_profiles_are_known),
        TEST(numbers_without_evidence_count_as_fitted),
        TEST(every_profile_states_its_evidence),
        TEST(derived_profiles_replace_value_and_evidence),
        TEST(bad_profiles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
