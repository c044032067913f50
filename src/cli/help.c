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

void cli_print_intro(const cli *self, FILE *out) {
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
    {"formats", "In: plan files (YAML or JSON of plan keys), Megatron-LM launch scripts, Hugging "
                "Face\nconfig.json and model cards, hardware, cluster, software and fabric files "
                "(YAML or JSON).\nOut: text for people; --json gives {schema, tool, inputs, "
                "assumptions, result, warnings}.\n"},
    {"mcp", "orrery mcp serves every command as a tool to agents that speak the Model Context "
            "Protocol:\nJSON-RPC on stdin and stdout, one object a line, until the input ends. It "
            "takes no options.\n"},
    {"environment", "NO_COLOR, CLICOLOR, CLICOLOR_FORCE, FORCE_COLOR and TERM=dumb decide on "
                    "colour unless\n--color does; COLUMNS on width. Nothing else is read.\n"},
};

int cli_print_help(const cli *self, const char *topic, FILE *out) {
    if (topic == NULL) {
        print_title(out);
        print_commands(self, true, out);
        return EXIT_FINE;
    }
    const orr_tree *command = cli_find_command(self, topic);
    if (command != NULL) {
        print_command(command, out);
        return EXIT_FINE;
    }
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (strcmp(topics[i].name, topic) == 0) {
            fputs(topics[i].text, out);
            return EXIT_FINE;
        }
    }
    fprintf(stderr,
            "orrery: error: no help on '%s'\nhelp: 'orrery help' lists the commands; "
            "topics are exit-codes, units, formats, environment, mcp\n",
            topic);
    return EXIT_INPUT;
}
