/* Launchers: how many processes torchrun, srun, mpirun and their like start, and Slurm's header. */
#include <string.h>

#include "exchange/exchange_int.h"

enum { MAX_PROCESSES = 1 << 20 };

static bool small_int(const char *text, uint32_t *out) {
    int64_t value;
    if (!orr_parse_int(text, &value) || value < 1 || value > MAX_PROCESSES) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* ---- Slurm ---------------------------------------------------------------------------------- */

/* "gpu:8", "gpu:a100:8", "8", "a100:8": the number behind the last colon. */
static void gpu_count(const char *value, uint32_t *out) {
    const char *colon = strrchr(value, ':');
    (void)small_int(colon != NULL ? colon + 1 : value, out);
}

static void slurm_option(slurm_header *h, const char *name, const char *value) {
    if (strcmp(name, "--nodes") == 0 || strcmp(name, "-N") == 0) {
        (void)small_int(value, &h->nodes);
    } else if (strcmp(name, "--gpus-per-node") == 0) {
        gpu_count(value, &h->gpus_per_node);
    } else if (strcmp(name, "--gres") == 0 && strncmp(value, "gpu", 3) == 0) {
        gpu_count(value, &h->gpus_per_node);
    } else if (strcmp(name, "--gpus") == 0 || strcmp(name, "-G") == 0) {
        gpu_count(value, &h->gpus);
    } else if (strcmp(name, "--ntasks-per-node") == 0) {
        (void)small_int(value, &h->tasks_per_node);
    } else if (strcmp(name, "--ntasks") == 0 || strcmp(name, "-n") == 0) {
        (void)small_int(value, &h->tasks);
    }
}

/* The next blank-separated word of a line, or NULL. */
static const char *next_word(orr_arena *arena, const char **p, const char *end) {
    while (*p < end && (**p == ' ' || **p == '\t' || **p == '\r')) {
        (*p)++;
    }
    const char *start = *p;
    while (*p < end && **p != ' ' && **p != '\t' && **p != '\r') {
        (*p)++;
    }
    return *p > start ? orr_arena_copy(arena, start, (size_t)(*p - start)) : NULL;
}

slurm_header orr_slurm_read(orr_arena *arena, const char *text, size_t length) {
    slurm_header h = {0};
    uint32_t line = 0;
    size_t found = 0;
    for (const char *p = text, *end = text + length; p < end && found < 256;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline != NULL ? newline : end;
        line++;
        if ((size_t)(stop - p) > 7 && memcmp(p, "#SBATCH", 7) == 0) {
            h.line = h.line == 0 ? line : h.line;
            found++;
            p += 7;
            const char *name;
            while ((name = next_word(arena, &p, stop)) != NULL && name[0] == '-') {
                char *equals = strchr(name, '=');
                if (equals != NULL) {
                    *equals = '\0';
                    slurm_option(&h, name, equals + 1);
                } else if (strncmp(name, "-N", 2) == 0 && name[2] != '\0') {
                    slurm_option(&h, "-N", name + 2);
                } else {
                    const char *back = p, *value = next_word(arena, &p, stop);
                    if (value != NULL && value[0] == '-') {
                        p = back;
                    } else if (value != NULL) {
                        slurm_option(&h, name, value);
                    }
                }
            }
        }
        p = newline != NULL ? newline + 1 : end;
    }
    return h;
}

size_t orr_slurm_variables(orr_arena *arena, const slurm_header *h, orr_shell_given *given) {
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {
        {"SLURM_NNODES", h->nodes},
        {"SLURM_JOB_NUM_NODES", h->nodes},
        {"SLURM_GPUS_PER_NODE", h->gpus_per_node},
        {"SLURM_GPUS_ON_NODE", h->gpus_per_node},
        {"SLURM_NTASKS_PER_NODE", h->tasks_per_node},
        {"SLURM_NTASKS", h->tasks},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t value = rows[i].value;
        if (i == 5 && value == 0) {
            value = h->nodes * h->tasks_per_node;
        }
        if (value > 0) {
            given[count++] = (orr_shell_given){.name = rows[i].name,
                                               .value = orr_arena_format(arena, "%u", value)};
        }
    }
    return count;
}

/* ---- launchers ------------------------------------------------------------------------------ */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

typedef enum launcher_kind {
    LAUNCH_NONE,
    LAUNCH_TORCH,
    LAUNCH_SRUN,
    LAUNCH_MPI,
    LAUNCH_DEEPSPEED,
    LAUNCH_ACCELERATE
} launcher_kind;

static launcher_kind launcher_of(const char *word) {
    const char *base = base_name(word);
    if (strcmp(base, "torchrun") == 0 || strcmp(word, "torch.distributed.launch") == 0 ||
        strcmp(word, "torch.distributed.run") == 0) {
        return LAUNCH_TORCH;
    }
    if (strcmp(base, "srun") == 0) {
        return LAUNCH_SRUN;
    }
    if (strcmp(base, "mpirun") == 0 || strcmp(base, "mpiexec") == 0) {
        return LAUNCH_MPI;
    }
    if (strcmp(base, "deepspeed") == 0) {
        return LAUNCH_DEEPSPEED;
    }
    return strcmp(base, "accelerate") == 0 ? LAUNCH_ACCELERATE : LAUNCH_NONE;
}

typedef enum launch_field { FIELD_NODES, FIELD_PER_NODE, FIELD_TOTAL } launch_field;
typedef struct launch_option {
    launcher_kind launcher;
    const char *name; /* "_" and "-" are one */
    launch_field field;
} launch_option;

static const launch_option launch_options[] = {
    {LAUNCH_TORCH, "--nnodes", FIELD_NODES},
    {LAUNCH_TORCH, "--nproc-per-node", FIELD_PER_NODE},
    {LAUNCH_SRUN, "--nodes", FIELD_NODES},
    {LAUNCH_SRUN, "-N", FIELD_NODES},
    {LAUNCH_SRUN, "--ntasks-per-node", FIELD_PER_NODE},
    {LAUNCH_SRUN, "--ntasks", FIELD_TOTAL},
    {LAUNCH_SRUN, "-n", FIELD_TOTAL},
    {LAUNCH_MPI, "-np", FIELD_TOTAL},
    {LAUNCH_MPI, "-n", FIELD_TOTAL},
    {LAUNCH_MPI, "--np", FIELD_TOTAL},
    {LAUNCH_MPI, "-npernode", FIELD_PER_NODE},
    {LAUNCH_MPI, "--npernode", FIELD_PER_NODE},
    {LAUNCH_MPI, "-N", FIELD_PER_NODE},
    {LAUNCH_DEEPSPEED, "--num-nodes", FIELD_NODES},
    {LAUNCH_DEEPSPEED, "--num-gpus", FIELD_PER_NODE},
    {LAUNCH_ACCELERATE, "--num-machines", FIELD_NODES},
    {LAUNCH_ACCELERATE, "--num-processes", FIELD_TOTAL},
};

static bool option_equal(const char *a, const char *b, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char x = a[i] == '_' ? '-' : a[i];
        if (x != b[i] || b[i] == '\0') {
            return false;
        }
    }
    return b[length] == '\0';
}

static void set_field(importer *im, launch *found, launch_field field, const char *option,
                      const orr_shell_word *word, const char *value) {
    uint32_t *slot = field == FIELD_NODES      ? &found->nodes
                     : field == FIELD_PER_NODE ? &found->per_node
                                               : &found->total;
    uint32_t *line = field == FIELD_NODES      ? &found->nodes_line
                     : field == FIELD_PER_NODE ? &found->per_node_line
                                               : &found->total_line;
    *line = word->line;
    *slot = 0;
    if (word->unknown != NULL) {
        orr_import_depends(im, option, word->line, "gpus", word->unknown);
    } else if (!small_int(value, slot)) {
        orr_import_unknown(
            im, option, word->line, true,
            orr_arena_format(im->arena, "\"%.40s\" is not a number of processes", value));
    } else if (word->assumed != NULL) {
        orr_import_assume(im, field == FIELD_NODES ? "nodes" : "gpus", value,
                          orr_arena_format(im->arena, "%s comes from %s", option, word->assumed));
    }
}

/* Reads the launchers' options up to the program. The program is the first word that ends in .py,
 * or the module behind the launcher's own -m. */
static void read_launcher(importer *im, const orr_shell_command *command, launch *found) {
    launcher_kind kind = LAUNCH_NONE;
    bool torch = false;
    for (size_t i = 0; i < command->count; i++) {
        const orr_shell_word *word = &command->word[i];
        launcher_kind here = launcher_of(word->text);
        if (here != LAUNCH_NONE) {
            /* torchrun inside srun: one task a node starts the rest. */
            if (here == LAUNCH_TORCH) {
                found->per_node = found->total = 0;
                found->per_node_line = found->total_line = 0;
                torch = true;
            }
            kind = here;
            found->launcher = true;
            continue;
        }
        if (orr_ends_with(word->text, ".py")) {
            found->script = i + 1;
            found->program = base_name(word->text);
            break;
        }
        if (strcmp(word->text, "-m") == 0 && i + 1 < command->count &&
            launcher_of(command->word[i + 1].text) == LAUNCH_NONE) {
            found->script = i + 2;
            break;
        }
        if (strcmp(word->text, "--standalone") == 0 && kind == LAUNCH_TORCH) {
            found->nodes = 1;
            found->nodes_line = word->line;
        }
        const char *equals = strchr(word->text, '=');
        size_t length = equals != NULL ? (size_t)(equals - word->text) : strlen(word->text);
        for (size_t k = 0; k < sizeof launch_options / sizeof *launch_options; k++) {
            const launch_option *option = &launch_options[k];
            if (option->launcher == kind && option_equal(word->text, option->name, length)) {
                if (equals != NULL) {
                    set_field(im, found, option->field, option->name, word, equals + 1);
                } else if (i + 1 < command->count) {
                    i++;
                    set_field(im, found, option->field, option->name, &command->word[i],
                              command->word[i].text);
                }
                break;
            }
        }
    }
    if (kind == LAUNCH_DEEPSPEED && found->nodes == 0 && found->nodes_line == 0 &&
        found->per_node > 0) {
        found->nodes = 1;
        orr_import_assume(im, "nodes", "1", "deepspeed --num_gpus without a host file: one node");
    }
    if (torch) {
        /* torchrun's own defaults. */
        found->nodes = found->nodes == 0 && found->nodes_line == 0 ? 1 : found->nodes;
        found->per_node = found->per_node == 0 && found->per_node_line == 0 ? 1 : found->per_node;
        found->total = 0;
    }
}

bool orr_launch_prints(const orr_shell_command *command) {
    static const char *const names[] = {"echo", "printf", "cat", "tee", "log", "logger"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(command->word[0].text, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* How many of the words are options that are known. */
static size_t score_of(importer *im, const orr_shell_word *word, size_t count, knows_fn knows) {
    size_t score = 0;
    for (size_t k = 0; k < count; k++) {
        const char *text = word[k].text;
        if (text[0] == '-' && text[1] == '-') {
            size_t length = strcspn(text + 2, "=");
            score += length < 80 && knows(orr_arena_copy(im->arena, text + 2, length));
        }
    }
    return score;
}

static bool names_program(const orr_shell_variable *variable) {
    for (size_t i = 0; i < variable->count; i++) {
        if (orr_ends_with(variable->word[i].text, ".py")) {
            return true;
        }
    }
    return false;
}

/* The variable that holds a whole command line, or all that hold options, one after the other. */
static const orr_shell_command *from_variables(importer *im, const orr_shell *shell, knows_fn knows,
                                               size_t least) {
    size_t total = 0, best = 0;
    const orr_shell_variable *whole = NULL;
    for (size_t i = 0; i < shell->variable_count; i++) {
        const orr_shell_variable *v = &shell->variable[i];
        size_t score = score_of(im, v->word, v->count, knows);
        if (score >= least && names_program(v) && score > best) {
            best = score;
            whole = v;
        }
        total += score >= least ? v->count : 0;
    }
    if (total == 0) {
        return NULL;
    }
    orr_shell_word *word = ORR_NEW_ARRAY(im->arena, orr_shell_word, total);
    size_t count = 0;
    orr_text names = orr_text_new(im->arena, 1024);
    for (size_t i = 0; i < shell->variable_count; i++) {
        const orr_shell_variable *v = &shell->variable[i];
        if (whole != NULL ? v == whole : score_of(im, v->word, v->count, knows) >= least) {
            for (size_t k = 0; k < v->count; k++) {
                word[count++] = v->word[k];
            }
            orr_text_format(&names, "%s$%s", names.length > 0 ? ", " : "", v->name);
        }
    }
    orr_import_warn(im, word[0].line,
                    "the script starts no training itself: the arguments in %s are "
                    "read",
                    orr_text_done(&names));
    orr_shell_command *command = ORR_NEW(im->arena, orr_shell_command);
    *command = (orr_shell_command){.word = word, .count = count, .line = word[0].line};
    return command;
}

launch orr_launch_find(importer *im, const orr_shell *shell, knows_fn knows, size_t least) {
    launch found = {0};
    size_t best = least > 0 ? least - 1 : 0;
    for (size_t i = 0; i < shell->command_count; i++) {
        const orr_shell_command *command = &shell->command[i];
        size_t score = score_of(im, command->word, command->count, knows);
        if (score > best && !orr_launch_prints(command)) {
            best = score;
            found.command = command;
        }
    }
    if (found.command == NULL) {
        found.command = from_variables(im, shell, knows, least);
    }
    if (found.command != NULL) {
        read_launcher(im, found.command, &found);
    }
    return found;
}

launch orr_launch_of(importer *im, const orr_shell_command *command) {
    launch found = {.command = command};
    read_launcher(im, command, &found);
    return found;
}

void orr_launch_keys(importer *im, const launch *found, const slurm_header *h) {
    uint32_t nodes = found->nodes, per_node = found->per_node, total = found->total;
    uint32_t nodes_line = found->nodes_line, per_node_line = found->per_node_line;
    if (nodes == 0 && nodes_line == 0 && h->nodes > 0) {
        nodes = h->nodes;
        nodes_line = h->line;
    }
    if (per_node == 0 && per_node_line == 0 && total == 0) {
        per_node = h->gpus_per_node > 0 ? h->gpus_per_node : h->tasks_per_node;
        per_node_line = h->line;
        total = per_node == 0 ? (h->gpus > 0 ? h->gpus : h->tasks) : 0;
    }
    if (h->nodes > 0 && nodes > 0 && h->nodes != nodes) {
        orr_import_warn(im, nodes_line,
                        "the launcher starts %u nodes, the Slurm header asks for %u", nodes,
                        h->nodes);
    }
    bool shared = h->tasks_per_node > 1 && h->gpus_per_node == per_node * h->tasks_per_node;
    if (h->gpus_per_node > 0 && found->per_node > 0 && found->per_node != h->gpus_per_node &&
        !shared) {
        orr_import_warn(im, per_node_line,
                        "the launcher starts %u processes on a node, the Slurm header asks for %u "
                        "GPUs there",
                        found->per_node, h->gpus_per_node);
    }
    if (nodes > 0) {
        orr_import_put_int(im, "nodes", nodes, nodes_line);
    }
    if (per_node > 0 && total == 0) {
        orr_import_put_int(im, "gpus_per_node", per_node, per_node_line);
    }
    if (total == 0 && nodes > 0 && per_node > 0 &&
        (uint64_t)nodes * per_node <= (uint64_t)MAX_PROCESSES) {
        total = nodes * per_node;
    }
    if (total > 0) {
        orr_import_put_int(im, "gpus", total,
                           per_node_line > 0 ? per_node_line : found->total_line);
    } else if (!found->launcher && nodes == 0 && per_node == 0) {
        orr_import_ask(im, found->command->line, "gpus",
                       "no launcher says how many processes there are; give --gpus");
    } else {
        orr_import_ask(im, found->command->line, "gpus",
                       "the number of GPUs is not known from this script; give --gpus");
    }
}
