/* Progress on stderr, and the interrupt that ends a command with what it has so far. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* Set by a signal handler, read by the threads of a search. */
static atomic_int interrupted;

/* Whether the command asks: one that never does has nothing to keep and ends at once. */
static atomic_int asked;

static void on_interrupt(int signal_number) {
    if (atomic_load(&asked) == 0) {
        _exit(128 + signal_number);
    }
    atomic_store(&interrupted, 1);
}

static double now_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct meter {
    double start_s, shown_s;
    bool quiet, terminal, drawn;
} meter;

static meter shown; /* of the process's one command */

/* At most ten times a second on a terminal, every ten seconds elsewhere; never in the first second.
 */
static bool is_due(double at_s) {
    double pause_s = shown.terminal ? 0.1 : 10;
    double first_s = shown.terminal ? 1 : 10;
    return !shown.quiet && at_s - shown.start_s >= first_s && at_s - shown.shown_s >= pause_s;
}

static bool on_progress(void *user, const char *what, double done, double total) {
    (void)user;
    atomic_store(&asked, 1);
    double at_s = now_s();
    if (is_due(at_s) && total > 0) {
        double spent_s = at_s - shown.start_s;
        double rate = spent_s > 0 ? done / spent_s : 0;
        fprintf(stderr, "%s%s: %.0f of %.0f (%.0f %%)",
                shown.terminal ? "\r\033[K" : "orrery: ", what, done, total, 100 * done / total);
        if (rate > 0) {
            fprintf(stderr, ", %.3g a second, about %.0f s left", rate, (total - done) / rate);
        }
        fputs(shown.terminal ? "" : "\n", stderr);
        shown.shown_s = at_s;
        shown.drawn = shown.terminal;
    }
    return atomic_load(&interrupted) == 0;
}

void cli_start_progress(cli *self) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND; /* the second one kills */
    (void)sigaction(SIGINT, &action, NULL);
    shown = (meter){
        .start_s = now_s(), .quiet = self->options.quiet, .terminal = isatty(STDERR_FILENO) == 1};
    orr_ctx_on_progress(self->ctx, on_progress, NULL);
}

void cli_end_progress(void) {
    if (shown.drawn) {
        fputs("\r\033[K", stderr);
        shown.drawn = false;
    }
}
