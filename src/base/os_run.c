#define _DEFAULT_SOURCE /* setpgid's group signals, readlink */
#include "base/os_run.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

double orr_os_clock_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double orr_os_cpu_s(void) {
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

const char *orr_os_date(orr_arena *arena) {
    time_t now = time(NULL);
    struct tm parts;
    char text[16] = "";
    if (gmtime_r(&now, &parts) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%d", &parts);
    }
    return orr_arena_text(arena, text);
}

const char *orr_os_processor(orr_arena *arena) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256], model[128] = "";
    while (file != NULL && model[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon != NULL) {
            (void)snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return orr_arena_format(arena, "%s%s%ld processors", model, model[0] != '\0' ? ", " : "",
                            count);
}

/* ---- modules -------------------------------------------------------------------------------- */

static void *open_module(orr_arena *arena, const char *name, const char **tried) {
    char self[1024];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (strchr(name, '/') != NULL || length <= 0) {
        *tried = name;
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    const char *const folders[] = {self, orr_arena_format(arena, "%s/../lib/orrery", self)};
    for (size_t i = 0; i < 2; i++) {
        *tried = orr_arena_format(arena, "%s/%s", folders[i], name);
        if (access(*tried, F_OK) == 0) {
            return dlopen(*tried, RTLD_NOW | RTLD_LOCAL);
        }
    }
    *tried = orr_arena_format(arena, "%s in %s or %s", name, folders[0], folders[1]);
    return NULL;
}

orr_status orr_os_module(orr_arena *arena, const char *name, const char *symbol, void **out,
                         orr_err *err) {
    const char *tried = name;
    (void)dlerror();
    void *module = open_module(arena, name, &tried);
    if (module == NULL) {
        const char *why = dlerror();
        return orr_fail(err, ORR_E_IO, "cannot load %s%s%s", tried, why != NULL ? ": " : "",
                        why != NULL ? why : "");
    }
    *out = dlsym(module, symbol);
    if (*out == NULL) {
        (void)dlclose(module);
        return orr_fail(err, ORR_E_IO, "%s has no symbol '%s'", tried, symbol);
    }
    return ORR_OK;
}

/* ---- child ---------------------------------------------------------------------------------- */

enum { MAX_MESSAGE = 4096 };

bool orr_os_send(int channel, const void *message, size_t bytes) {
    for (size_t sent = 0; sent < bytes;) {
        ssize_t n = write(channel, (const char *)message + sent, bytes - sent);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        sent += (size_t)n;
    }
    return true;
}

/* A request to stop that came while such signals were held back. */
static bool asked_to_stop(const sigset_t *held) {
    const struct timespec now = {0, 0};
    return sigtimedwait(held, NULL, &now) > 0;
}

/* Whole messages until the channel closes or someone asks to stop; timed_out: silent too long. */
static void listen(int channel, orr_os_receive receive, void *user, size_t bytes, double limit_s,
                   const sigset_t *held, pid_t child, orr_os_end *end) {
    enum { SLICE_MS = 50 };
    char message[MAX_MESSAGE];
    size_t have = 0;
    double deadline_s = orr_os_clock_s() + limit_s;
    for (;;) {
        struct pollfd wait = {.fd = channel, .events = POLLIN};
        int ready = poll(&wait, 1, SLICE_MS);
        if (!end->interrupted && asked_to_stop(held)) {
            end->interrupted = true; /* what it said until now is still read */
            (void)kill(-child, SIGKILL);
        }
        end->timed_out = ready == 0 && orr_os_clock_s() > deadline_s;
        if (end->timed_out || (ready < 0 && errno != EINTR)) {
            return;
        }
        if (ready <= 0) {
            continue;
        }
        ssize_t n = read(channel, message + have, bytes - have);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return;
        }
        have += (size_t)n;
        if (have == bytes) {
            have = 0;
            receive(user, message);
            deadline_s = orr_os_clock_s() + limit_s;
        }
    }
}

/* A parent that is killed takes the child along, whatever that one waits for. */
static void end_with(pid_t parent) {
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) {
        _exit(1); /* it is gone already */
    }
}

orr_status orr_os_child(orr_os_body body, void *body_user, orr_os_receive receive,
                        void *receive_user, size_t bytes, double limit_s, orr_os_end *end,
                        orr_err *err) {
    int channel[2];
    if (bytes == 0 || bytes > MAX_MESSAGE || pipe(channel) != 0) {
        return orr_fail(err, ORR_E_IO, "cannot make a channel to a child process");
    }
    (void)fflush(NULL);
    /* asked to stop, the parent ends the child and keeps what it said */
    sigset_t held, before;
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGTERM);
    (void)sigaddset(&held, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &held, &before);
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)close(channel[0]);
        (void)close(channel[1]);
        return orr_fail(err, ORR_E_IO, "cannot start a child process");
    }
    if (child == 0) {
        (void)setpgid(0, 0);
        end_with(parent);
        (void)pthread_sigmask(SIG_UNBLOCK, &held, NULL);
        (void)close(channel[0]);
        (void)signal(SIGPIPE, SIG_IGN);
        static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT};
        for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
            (void)signal(deadly[i], SIG_DFL); /* whatever the caller made of them */
        }
        int code = body(body_user, channel[1]);
        (void)close(channel[1]);
        _exit(code);
    }
    (void)setpgid(child, child);
    (void)close(channel[1]);
    *end = (orr_os_end){.code = -1};
    listen(channel[0], receive, receive_user, bytes, limit_s, &held, child, end);
    (void)close(channel[0]);
    if (end->timed_out || end->interrupted) {
        (void)kill(-child, SIGKILL);
    }
    /* A child that closed the channel but does not exit is given the same time once more. */
    double deadline_s = orr_os_clock_s() + limit_s;
    int status = 0;
    for (;;) {
        pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child || (done < 0 && errno != EINTR)) {
            break;
        }
        if (orr_os_clock_s() > deadline_s) {
            end->timed_out = true;
            (void)kill(-child, SIGKILL);
            (void)waitpid(child, &status, 0);
            break;
        }
        const struct timespec pause = {0, 2000000};
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(-child, SIGKILL); /* what it may have left behind */
    end->interrupted = asked_to_stop(&held) || end->interrupted;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (WIFEXITED(status)) {
        end->code = WEXITSTATUS(status);
    } else if (WIFSIGNALED(status)) {
        end->signal = WTERMSIG(status);
    }
    return ORR_OK;
}
