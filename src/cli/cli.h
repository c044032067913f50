/* The command line: a thin front end on the public headers. It parses arguments by the commands'
 * own field lists, prints results through the report, and turns outcomes into exit codes. */
#ifndef ORR_CLI_H
#define ORR_CLI_H

#include <stdio.h>

#include "orrery/orrery.h"
#include "orrery/report.h"

/* Exit codes are documented interface (`orrery help exit-codes`). */
enum {
    EXIT_FINE = 0,
    EXIT_RUNTIME = 1,
    EXIT_INPUT = 2,
    EXIT_INFEASIBLE = 3,
    EXIT_CHECK = 4,
    EXIT_NETWORK = 5,
    EXIT_DEVICE = 6,
    EXIT_INTERNAL = 70,
    EXIT_INTERRUPTED = 130
};

typedef enum cli_color { COLOR_AUTO = 0, COLOR_ALWAYS, COLOR_NEVER } cli_color;

/* Options that every command takes. */
typedef struct cli_options {
    bool json, ascii, quiet, verbose, help, version;
    cli_color color;
    uint32_t width;
    const char *output; /* file; NULL: stdout */
} cli_options;

typedef struct cli {
    orr_ctx *ctx;
    orr_arena *arena;
    orr_tree *commands; /* of orr_commands */
    cli_options options;
} cli;

/* args.c: splits argv into command (one or two words; NULL when there is none), options and the
 * arguments of orr_call. words counts what belongs to the command. */
orr_status cli_parse(cli *self, int argc, char **argv, const char **command, orr_tree **args,
                     orr_err *err);
/* The entry of a command in self->commands; NULL when unknown. */
const orr_tree *cli_find_command(const cli *self, const char *name);

/* help.c */
void cli_print_version(const cli *self, FILE *out);
void cli_print_intro(const cli *self, FILE *out);
int cli_print_help(const cli *self, const char *topic, FILE *out); /* EXIT_FINE or EXIT_INPUT */

/* mcp.c: serves the protocol until its input ends. */
int cli_serve_mcp(cli *self);

/* progress.c: while a command runs, progress shows on stderr and an interrupt ends it early. */
void cli_start_progress(cli *self);
void cli_end_progress(void);

/* output.c */
int cli_print_error(const cli *self, const orr_err *err);
int cli_print_result(const cli *self, const orr_tree *envelope);
bool cli_use_color(const cli *self, FILE *stream);

#endif
