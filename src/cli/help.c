#include <string.h>

#include "cli/cli.h"

static const char *text_of(const orr_tree *command, const char *key) {
    return orr_tree_text(orr_tree_get(command, key), "");
}

/* The first group line by line; of the others, on the first screen, names alone. */
static void print_commands(const cli *self, bool all, FILE *out) {
    const char *group = "", *first = text_of(orr_tree_at(self->commands, 0), "group");
    for (size_t i = 0; i < orr_tree_size(self->commands); i++) {
        const orr_tree *command = orr_tree_at(self->commands, i);
        const char *own = text_of(command, "group");
        bool in_full = all || strcmp(own, first) == 0, opens = strcmp(own, group) != 0;
        if (opens) {
            fprintf(out, in_full ? "%s%s\n" : "%s%s: ", group[0] == '\0' ? "" : "\n", own);
            group = own;
        }
        if (in_full) {
            fprintf(out, "  %-15s %s\n", text_of(command, "name"), text_of(command, "summary"));
        } else {
            fprintf(out, "%s%s", opens ? "" : ", ", text_of(command, "name"));
        }
    }
    fprintf(out, all ? "  %-15s %s\n" : ", %s (%s)\n", "mcp",
            "every command as a tool, on stdin and stdout");
}

static void print_title(FILE *out) {
    fprintf(out, "orrery %s - will this training plan fit, how fast will it be, and why\n\n",
            orr_version());
}

/* {schema, tool, what}: help as JSON. */
static void print_json(const cli *self, const char *what, orr_tree *value, FILE *out) {
    orr_tree *map = orr_tree_new_map(self->arena);
    orr_tree_put_text(self->arena, map, "schema", "orrery.help/1");
    orr_tree *tool = orr_tree_put(self->arena, map, "tool", orr_tree_new_map(self->arena));
    orr_tree_put_text(self->arena, tool, "name", "orrery");
    orr_tree_put_text(self->arena, tool, "version", orr_version());
    if (what != NULL) {
        (void)orr_tree_put(self->arena, map, what, value);
    }
    fprintf(out, "%s\n", orr_write_json(self->arena, map, true));
}

void cli_print_version(const cli *self, FILE *out) {
    if (self->options.json) {
        print_json(self, NULL, NULL, out);
    } else {
        fprintf(out, "orrery %s\n", orr_version());
    }
}

void cli_print_intro(const cli *self, FILE *out) {
    if (self->options.json) {
        print_json(self, "commands", self->commands, out);
        return;
    }
    print_title(out);
    fputs("  orrery project --model llama-3.1-8b --hardware h100 --gpus 8 --cp 2 --gbs 128 "
          "--seq 8192\n"
          "  orrery check train.sh --hardware h100\n\n",
          out);
    print_commands(self, false, out);
    fputs("\n'orrery help' lists every command, 'orrery help COMMAND' tells more; also help "
          "exit-codes,\nrules, units, formats, environment.\n",
          out);
}

static void print_flag_name(const char *name, FILE *out) {
    fputs("--", out);
    for (const char *p = name; *p != '\0'; p++) {
        fputc(*p == '_' ? '-' : *p, out);
    }
}

static void print_values(const orr_tree *values, FILE *out) {
    for (size_t i = 0; i < orr_tree_size(values); i++) {
        fprintf(out, "%s%s", i == 0 ? "" : "|", orr_tree_text(orr_tree_at(values, i), ""));
    }
}

static void print_field(const orr_tree *field, FILE *out) {
    const char *name = orr_tree_text(orr_tree_get(field, "name"), "");
    if (orr_tree_bool(orr_tree_get(field, "positional"), false)) {
        fputs("  ", out);
        for (const char *p = name; *p != '\0'; p++) {
            fputc(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p, out);
        }
        fputs(orr_tree_bool(orr_tree_get(field, "repeat"), false) ? " ..." : "", out);
    } else {
        fputs("  ", out);
        print_flag_name(name, out);
        const orr_tree *values = orr_tree_get(field, "values");
        if (orr_tree_size(values) > 0) {
            fputc(' ', out);
            print_values(values, out);
        } else if (strcmp(orr_tree_text(orr_tree_get(field, "type"), ""), "bool") != 0) {
            const char *unit = orr_tree_text(orr_tree_get(field, "unit"), NULL);
            fprintf(out, " %s", unit == NULL ? "VALUE" : unit);
        }
    }
    fprintf(out, "\n        %s", orr_tree_text(orr_tree_get(field, "doc"), ""));
    const orr_tree *fallback = orr_tree_get(field, "default");
    if (fallback != NULL && orr_tree_text(fallback, "")[0] != '\0') {
        fprintf(out, " (default %s)", orr_tree_text(fallback, ""));
    }
    fputc('\n', out);
}

static void print_command(const orr_tree *command, FILE *out) {
    const char *name = orr_tree_text(orr_tree_get(command, "name"), "");
    fprintf(out, "orrery %s - %s\n\nexample\n  orrery %s %s\n", name,
            orr_tree_text(orr_tree_get(command, "summary"), ""), name,
            orr_tree_text(orr_tree_get(command, "example"), ""));
    const orr_tree *fields = orr_tree_get(command, "fields");
    if (orr_tree_size(fields) > 0) {
        fputs("\narguments\n", out);
    }
    for (int positional = 1; positional >= 0; positional--) {
        for (size_t i = 0; i < orr_tree_size(fields); i++) {
            const orr_tree *field = orr_tree_at(fields, i);
            if (orr_tree_bool(orr_tree_get(field, "positional"), false) == (positional == 1)) {
                print_field(field, out);
            }
        }
    }
    fputs("\neverywhere\n"
          "  --json            one JSON object on stdout\n"
          "  -o, --output FILE write there instead (replaced as a whole)\n"
          "  --color auto|always|never, --ascii, --width COLUMNS\n"
          "  -q, --quiet       no warnings   -v, --verbose  every table in full\n",
          out);
}

static const struct {
    const char *name, *text;
} topics[] = {
    {"exit-codes", "0    fine\n"
                   "1    runtime failure (a file cannot be written)\n"
                   "2    usage or input error\n"
                   "3    the plan is illegal, does not start or does not fit; the result is "
                   "printed all the same\n"
                   "4    a check fell short\n"
                   "5    network or LLM\n"
                   "6    device\n"
                   "70   a bug in orrery\n"
                   "130  interrupted\n"},
    {"units", "Sizes take units: 80GiB (2^30 bytes), 80GB (10^9 bytes), 3.35TB/s, 400Gb/s (bits),\n"
              "12us, 8k, 1.5M. Results are in base units: seconds, bytes, flop, bytes/s; the name\n"
              "of every key in JSON ends in its unit.\n"},
    {"formats",
     "In: plan files (YAML or JSON of plan keys), launch scripts and configurations "
     "(docs/importing.md),\nHugging Face config.json and model cards, hardware, cluster, "
     "software, fabric and prices files (YAML\nor JSON); training logs, tables of "
     "nccl-tests, profiler traces, memory snapshots, topologies\n(docs/evidence.md).\n"
     "Out: text for people; --json gives {schema, tool, inputs, "
     "assumptions, result, warnings}.\n"},
    {"mcp", "orrery mcp serves every command as a tool to agents that speak the Model Context "
            "Protocol:\nJSON-RPC on stdin and stdout, one object a line, until the input ends. It "
            "takes no options.\n"},
    {"environment", "NO_COLOR, CLICOLOR, CLICOLOR_FORCE, FORCE_COLOR and TERM=dumb decide on "
                    "colour unless\n--color does; COLUMNS on width. Nothing else is read.\n"},
};

int cli_print_help(const cli *self, const char *topic, FILE *out) {
    if (topic == NULL && self->options.json) {
        print_json(self, "commands", self->commands, out);
        return EXIT_FINE;
    }
    if (topic == NULL) {
        print_title(out);
        print_commands(self, true, out);
        return EXIT_FINE;
    }
    const orr_tree *command = cli_find_command(self, topic);
    if (command != NULL) {
        if (self->options.json) {
            print_json(self, "command", orr_tree_copy(self->arena, command), out);
        } else {
            print_command(command, out);
        }
        return EXIT_FINE;
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(topics[i].name, topic) == 0) {
            if (self->options.json) {
                print_json(self, "text", orr_tree_new_text(self->arena, topics[i].text), out);
            } else {
                fputs(topics[i].text, out);
            }
            return EXIT_FINE;
        }
    }
    orr_err err = {.status = ORR_E_NAME};
    (void)snprintf(err.message, sizeof err.message, "no help on '%.100s'", topic);
    (void)snprintf(err.hint, sizeof err.hint,
                   "'orrery help' lists the commands; topics are exit-codes, rules, units, "
                   "formats, environment, mcp");
    return cli_print_error(self, &err);
}
