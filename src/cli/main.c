#include <string.h>

#include "cli/cli.h"

static int run(cli *self, int argc, char **argv) {
    const char *command = NULL;
    orr_tree *args = NULL, *envelope = NULL;
    orr_err err = {0};
    for (int i = 1; i < argc; i++) { /* errors of parsing are JSON too when JSON is asked for */
        self->options.json = self->options.json || strcmp(argv[i], "--json") == 0;
    }
    if (cli_parse(self, argc, argv, &command, &args, &err) != ORR_OK) {
        return cli_print_error(self, &err);
    }
    if (self->options.version) {
        cli_print_version(self, stdout);
        return EXIT_FINE;
    }
    if (command == NULL) {
        cli_print_intro(self, stdout);
        return EXIT_FINE;
    }
    const char *topic = orr_tree_text(orr_tree_get(args, "topic"), NULL);
    bool rules = topic != NULL && strcmp(topic, "rules") == 0;
    if (strcmp(command, "help") == 0 && !rules) {
        return cli_print_help(self, topic, stdout);
    }
    if (rules) { /* the one topic that is a command's own answer */
        command = "rules";
        args = orr_tree_new_map(self->arena);
    }
    if (strcmp(command, "mcp") == 0 && !self->options.help) {
        if (topic != NULL) {
            err = (orr_err){.status = ORR_E_USAGE};
            (void)snprintf(err.message, sizeof err.message, "mcp takes no arguments");
            return cli_print_error(self, &err);
        }
        return cli_serve_mcp(self);
    }
    if (self->options.help) {
        return cli_print_help(self, command, stdout);
    }
    cli_start_progress(self);
    orr_status status = orr_call(self->ctx, command, args, self->arena, &envelope, &err);
    cli_end_progress();
    if (status != ORR_OK) {
        return cli_print_error(self, &err);
    }
    return cli_print_result(self, envelope);
}

int main(int argc, char **argv) {
    cli self = {.arena = orr_arena_new()};
    orr_err err = {0};
    int code = EXIT_INTERNAL;
    if (orr_ctx_new(NULL, &self.ctx, &err) == ORR_OK) {
        self.commands = orr_commands(self.ctx, self.arena);
        code = run(&self, argc, argv);
        orr_ctx_free(self.ctx);
    } else {
        code = cli_print_error(&self, &err);
    }
    orr_arena_free(self.arena);
    return code;
}
