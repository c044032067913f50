/* The parent: starts a child that measures, collects what it says, and says what it did not. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/os_run.h"
#include "engine/engine_int.h"

enum { MAX_NOTED = 1 << 14, MAX_STEPS = 4096 };

/* ---- child ---------------------------------------------------------------------------------- */

typedef struct child_args {
    const orr_measure_request *request;
    const orr_work *work;
    orr_arena *arena;
    orr_linker *linker;
} child_args;

static void note_identity(const orr_measurer *m) {
    orr_note note = {.kind = ORR_NOTE_IDENTITY, .identity = m->identity};
    (void)orr_os_send(m->channel, &note, sizeof note);
}

/* A host that computes itself should have its processor to itself. */
static void note_own_share(const orr_measurer *m, double wall_s, double cpu_s) {
    orr_note note = {.kind = ORR_NOTE_OWN, .value = wall_s > 0 ? cpu_s / wall_s : 0};
    if (!(m->backend->capabilities & ORR_BACKEND_HAS_CLOCK)) {
        (void)orr_os_send(m->channel, &note, sizeof note);
    }
}

static int run_parts(orr_measurer *m, const orr_work *work) {
    uint32_t parts = m->request->parts;
    double wall_s = orr_os_clock_s(), cpu_s = orr_os_cpu_s();
    int status = ORR_BACKEND_OK;
    if (status == ORR_BACKEND_OK && (parts & ORR_MEASURE_CHECK)) {
        status = orr_measure_checks(m);
    }
    if (status == ORR_BACKEND_OK && (parts & ORR_MEASURE_KERNELS)) {
        status = orr_measure_kernels(m, work);
    }
    if (status == ORR_BACKEND_OK && (parts & ORR_MEASURE_COLLECTIVES)) {
        status = orr_measure_sweep(m, work);
    }
    if (status == ORR_BACKEND_OK && (parts & ORR_MEASURE_STEP)) {
        status = orr_measure_step(m);
    }
    note_own_share(m, orr_os_clock_s() - wall_s, orr_os_cpu_s() - cpu_s);
    return status;
}

/* Clocks as they are after the work; a device that held back is said. */
static void note_clocks(orr_measurer *m) {
    orr_backend_identity after = m->identity;
    orr_backend_message message = {""};
    if (m->backend->identify(m->self, &after, &message) != ORR_BACKEND_OK) {
        return;
    }
    uint32_t slowed = after.slowed | m->identity.slowed;
    m->identity = after;
    m->identity.slowed = slowed;
    note_identity(m);
    if (slowed != 0) {
        orr_note_gap(m, "times at the full clock",
                     "the device slowed itself down (power, heat or its board): cool it, raise its "
                     "limit, or lock its clock, and measure again");
    }
}

static int body(void *user, int channel) {
    const child_args *args = (const child_args *)user;
    orr_measurer m = {.request = args->request,
                      .backend = args->request->backend,
                      .arena = args->arena,
                      .linker = args->linker,
                      .channel = channel};
    orr_note_begin(&m, "opening the device");
    int status = m.backend->open(args->request->options, &m.self, &m.message);
    if (status == ORR_BACKEND_OK) {
        status = m.backend->identify(m.self, &m.identity, &m.message);
        note_identity(&m);
        status = status == ORR_BACKEND_OK ? run_parts(&m, args->work) : status;
        if (status == ORR_BACKEND_OK) {
            note_clocks(&m);
        }
        if (status != ORR_BACKEND_OK) {
            orr_note_gap(&m, "everything after this", orr_backend_reason(status, &m.message));
        }
        m.backend->close(m.self);
    } else {
        orr_note_gap(&m, "everything", orr_backend_reason(status, &m.message));
    }
    orr_note note = {.kind = ORR_NOTE_DONE};
    (void)orr_os_send(channel, &note, sizeof note);
    return status;
}

/* ---- parent --------------------------------------------------------------------------------- */

typedef struct collected {
    orr_arena *arena;
    orr_measure_result *out;
    orr_evidence_record *record; /* [MAX_NOTED] by index */
    uint32_t record_count;
    double *step_s;
    uint32_t step_count;
    char doing[160];
    bool done;
} collected;

static void add_gap(collected *c, const char *what, const char *why) {
    if (orr_tree_size(c->out->gaps) < ORR_MAX_GAPS) {
        orr_tree *map = orr_tree_push(c->arena, c->out->gaps, orr_tree_new_map(c->arena));
        orr_tree_put_text(c->arena, map, "what", what);
        orr_tree_put_text(c->arena, map, "why", why);
    }
}

static void receive(void *user, const void *message) {
    collected *c = (collected *)user;
    const orr_note *note = (const orr_note *)message;
    c->out->messages++;
    switch ((orr_note_kind)note->kind) {
    case ORR_NOTE_IDENTITY: c->out->identity = note->identity; break;
    case ORR_NOTE_BEGIN: memcpy(c->doing, note->what, sizeof c->doing); break;
    case ORR_NOTE_RECORD:
        if (note->index < MAX_NOTED) {
            c->record[note->index] = note->record;
            c->record_count = orr_max_u32(c->record_count, note->index + 1);
        }
        break;
    case ORR_NOTE_GAP: add_gap(c, note->what, note->why); break;
    case ORR_NOTE_STEP:
        if (c->step_count < MAX_STEPS) {
            c->step_s[c->step_count++] = note->value;
        }
        break;
    case ORR_NOTE_CHECK:
        if (c->out->check_count < ORR_MAX_CHECKS) {
            orr_check_result *check = &c->out->check[c->out->check_count++];
            (void)snprintf(check->name, sizeof check->name, "%.60s", note->what);
            check->difference = note->value;
        }
        break;
    case ORR_NOTE_OWN: c->out->own_frac = note->value; break;
    case ORR_NOTE_HARNESS:
        c->out->harness_frac = note->value;
        c->out->readings = note->index;
        c->out->runs = note->record.samples;
        break;
    case ORR_NOTE_DONE: c->done = true; break;
    }
}

static void say_how_it_ended(collected *c, const orr_os_end *end, double limit_s) {
    char why[320];
    if (end->timed_out) {
        (void)snprintf(why, sizeof why, "nothing happened for %.0f s: it was ended", limit_s);
    } else if (end->interrupted) {
        c->out->interrupted = true;
        (void)snprintf(why, sizeof why,
                       "it was asked to stop (by hand, or as another rank was gone)");
    } else if (end->signal != 0) {
        (void)snprintf(why, sizeof why, "the measuring process was ended by signal %d",
                       end->signal);
    } else if (!c->done) {
        (void)snprintf(why, sizeof why, "the measuring process left with exit code %d", end->code);
    } else {
        return;
    }
    add_gap(c, c->doing, why);
}

/* A host that computes itself and did not have its processor measured the others too. */
static void say_how_quiet(collected *c, const orr_backend *backend) {
    const double own_frac = c->out->own_frac;
    bool timed = c->record_count > 0 || c->step_count > 0;
    if (timed && own_frac > 0 && own_frac < ORR_QUIET_FRAC && strcmp(backend->name, "null") != 0) {
        add_gap(c, "times on a quiet machine",
                orr_arena_format(c->arena,
                                 "the measuring had the processor for %.0f %% of the time: others "
                                 "ran beside it",
                                 100 * own_frac));
    }
}

static void build_evidence(collected *c) {
    orr_evidence *set = ORR_NEW(c->arena, orr_evidence);
    orr_evidence_record *record = ORR_NEW_ARRAY(c->arena, orr_evidence_record, MAX_NOTED);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->record_count; i++) {
        if (c->record[i].time_s > 0) {
            record[count++] = c->record[i];
        }
    }
    set->record = record;
    set->count = count;
    set->device = orr_arena_text(c->arena, c->out->identity.device);
    if (c->step_count > 0) {
        double *sorted = ORR_NEW_ARRAY(c->arena, double, c->step_count);
        memcpy(sorted, c->step_s, c->step_count * sizeof *sorted);
        c->out->step_s = orr_sample_median(sorted, c->step_count);
        c->out->step_samples = c->step_count;
        c->out->step_sample_s = c->step_s;
        orr_evidence_step *step = ORR_NEW(c->arena, orr_evidence_step);
        *step = (orr_evidence_step){.time_s = c->out->step_s};
        set->step = step;
        set->step_count = 1;
    }
    c->out->evidence = set;
}

orr_status orr_measure(orr_arena *arena, const orr_measure_request *request,
                       orr_measure_result *out, orr_err *err) {
    orr_work work;
    orr_linker *linker = orr_linker_new();
    *out = (orr_measure_result){.gaps = orr_tree_new_list(arena)};
    orr_status status = orr_scope_work(linker, arena, &request->scope, &work, err);
    if (status == ORR_OK) {
        collected c = {.arena = arena,
                       .out = out,
                       .record = ORR_NEW_ARRAY(arena, orr_evidence_record, MAX_NOTED),
                       .step_s = ORR_NEW_ARRAY(arena, double, MAX_STEPS)};
        child_args args = {request, &work, arena, linker};
        orr_os_end end;
        status =
            orr_os_child(body, &args, receive, &c, sizeof(orr_note), request->limit_s, &end, err);
        if (status == ORR_OK) {
            say_how_it_ended(&c, &end, request->limit_s);
            say_how_quiet(&c, request->backend);
            build_evidence(&c);
        }
    }
    orr_linker_free(linker);
    return status;
}
