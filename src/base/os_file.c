#include "base/os_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* Own words: strerror's depend on the system and its locale. */
static const char *reason(int error) {
    switch (error) {
    case ENOENT: return "there is no such file";
    case ENOTDIR: return "a part of its path is not a directory";
    case EACCES:
    case EPERM: return "permission denied";
    case ENAMETOOLONG: return "its path is too long";
    case ELOOP: return "its symbolic links go in circles";
    case EISDIR: return "it is a directory";
    case EMFILE:
    case ENFILE: return "too many files are open";
    default: return "the system reports an error";
    }
}

static orr_status refuse(const char *path, const char *why, orr_err *err) {
    return orr_fail(err, ORR_E_IO, "cannot read %s: %s", path, why);
}

static orr_status too_large(const char *path, size_t limit, orr_err *err) {
    return orr_fail(err, ORR_E_LIMIT, "%s has more than the %zu bytes that are read", path, limit);
}

static orr_status check_kind(const char *path, const struct stat *about, orr_err *err) {
    if (S_ISDIR(about->st_mode)) {
        return refuse(path, "it is a directory", err);
    }
    if (!S_ISREG(about->st_mode) && !S_ISFIFO(about->st_mode)) {
        return refuse(path, "it is not a regular file", err);
    }
    return ORR_OK;
}

/* Reads to the end whatever the size said: a pipe has none, and a file may grow meanwhile. */
static orr_status read_all(int fd, orr_arena *arena, const char *path, size_t expected,
                           size_t limit, char **out, size_t *length, orr_err *err) {
    size_t capacity = expected + 1, used = 0;
    char *bytes = (char *)orr_arena_alloc(arena, capacity + 1);
    for (;;) {
        if (used == capacity) {
            capacity = capacity > limit / 2 ? limit + 1 : 2 * capacity;
            char *bigger = (char *)orr_arena_alloc(arena, capacity + 1);
            memcpy(bigger, bytes, used);
            bytes = bigger;
        }
        ssize_t got = read(fd, bytes + used, capacity - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return refuse(path, reason(errno), err);
        }
        used += (size_t)got;
        if (used > limit) {
            return too_large(path, limit, err);
        }
        if (got == 0) {
            bytes[used] = '\0';
            *out = bytes;
            *length = used;
            return ORR_OK;
        }
    }
}

orr_status orr_os_read_file(orr_arena *arena, const char *path, size_t limit, char **out,
                            size_t *length, orr_err *err) {
    struct stat about;
    /* Asked before opening, because opening a device can have effects of its own. */
    if (stat(path, &about) != 0) {
        return refuse(path, reason(errno), err);
    }
    ORR_TRY(check_kind(path, &about, err));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return refuse(path, reason(errno), err);
    }
    orr_status status = ORR_OK;
    size_t expected = 4095;
    if (fstat(fd, &about) != 0) {
        status = refuse(path, reason(errno), err);
    } else if ((status = check_kind(path, &about, err)) == ORR_OK && S_ISREG(about.st_mode)) {
        if ((unsigned long long)about.st_size > limit) {
            status = too_large(path, limit, err);
        } else if (about.st_size > 0) {
            expected = (size_t)about.st_size;
        }
    }
    if (status == ORR_OK) {
        status = read_all(fd, arena, path, expected, limit, out, length, err);
    }
    (void)close(fd);
    return status;
}

bool orr_os_is_pipe(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISFIFO(about.st_mode);
}

orr_status orr_os_open(const char *path, int *out, orr_err *err) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return refuse(path, reason(errno), err);
    }
    ORR_TRY(check_kind(path, &about, err));
    *out = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return *out >= 0 ? ORR_OK : refuse(path, reason(errno), err);
}

orr_status orr_os_read_part(int file, char *to, size_t size, size_t *got, orr_err *err) {
    ssize_t n;
    do {
        n = read(file, to, size);
    } while (n < 0 && errno == EINTR);
    *got = n > 0 ? (size_t)n : 0;
    return n >= 0 ? ORR_OK : orr_fail(err, ORR_E_IO, "cannot read on: %s", reason(errno));
}

void orr_os_close(int file) {
    (void)close(file);
}

static orr_status refuse_write(const char *path, orr_err *err) {
    return orr_fail(err, ORR_E_WRITE, "cannot write %s: %s", path,
                    errno == ENOENT ? "its folder does not exist" : reason(errno));
}

static bool write_all(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t wrote = write(fd, bytes, length);
        if (wrote < 0 && errno != EINTR) {
            return false;
        }
        bytes += wrote < 0 ? 0 : wrote;
        length -= wrote < 0 ? 0 : (size_t)wrote;
    }
    return true;
}

orr_status orr_os_write_file(const char *path, const char *bytes, size_t length, orr_err *err) {
    char beside[4096];
    int n = snprintf(beside, sizeof beside, "%s.tmp-%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof beside) {
        errno = ENAMETOOLONG;
        return refuse_write(path, err);
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return refuse_write(path, err);
    }
    bool good = write_all(fd, bytes, length);
    good = close(fd) == 0 && good;
    if (!good || rename(beside, path) != 0) {
        orr_status status = refuse_write(path, err);
        (void)unlink(beside);
        return status;
    }
    return ORR_OK;
}

static int compare_names(const void *a, const void *b) {
    const char *const *x = (const char *const *)a, *const *y = (const char *const *)b;
    return strcmp(*x, *y);
}

static bool ends_in(const char *name, const char *suffix) {
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

orr_status orr_os_list(orr_arena *arena, const char *folder, const char *suffix, size_t max,
                       const char ***names, size_t *count, orr_err *err) {
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return orr_fail(err, ORR_E_IO, "cannot list %s: %s", folder,
                        errno == ENOENT ? "there is no such folder" : reason(errno));
    }
    const char **list = (const char **)orr_arena_array(arena, max, sizeof *list);
    size_t used = 0;
    bool fits = true;
    for (struct dirent *entry; fits && (entry = readdir(dir)) != NULL;) {
        if (ends_in(entry->d_name, suffix)) {
            fits = used < max;
            if (fits) {
                list[used++] = orr_arena_text(arena, entry->d_name);
            }
        }
    }
    (void)closedir(dir);
    if (!fits) {
        return orr_fail(err, ORR_E_LIMIT, "%s holds more than %zu files *%s", folder, max, suffix);
    }
    if (used > 0) {
        qsort(list, used, sizeof *list, compare_names);
    }
    *names = list;
    *count = used;
    return ORR_OK;
}

orr_status orr_os_make_folder(const char *path, orr_err *err) {
    struct stat about;
    if (mkdir(path, 0777) == 0) {
        return ORR_OK;
    }
    int error = errno;
    if (error != EEXIST || stat(path, &about) != 0) {
        return orr_fail(err, ORR_E_WRITE, "cannot make the folder %s: %s", path, reason(error));
    }
    if (!S_ISDIR(about.st_mode)) {
        return orr_fail(err, ORR_E_WRITE, "%s is not a folder", path);
    }
    return access(path, W_OK | X_OK) == 0
               ? ORR_OK
               : orr_fail(err, ORR_E_WRITE, "cannot write into %s: %s", path, reason(errno));
}
