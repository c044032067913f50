/* Whole files and folders, the one place that asks the operating system for them. */
#ifndef ORR_BASE_OS_FILE_H
#define ORR_BASE_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "orrery/status.h"

/* The bytes of a regular file, or of a pipe, plus a terminator. Directories and devices are
 * ORR_E_IO, as is a file that cannot be read; more than `limit` bytes is ORR_E_LIMIT. */
orr_status orr_os_read_file(orr_arena *arena, const char *path, size_t limit, char **out,
                            size_t *length, orr_err *err);
/* Whether a path is a pipe, which can be read only once. */
bool orr_os_is_pipe(const char *path);
/* A file read part by part, whatever its size; the same kinds of file. *got is 0 at the end. */
orr_status orr_os_open(const char *path, int *out, orr_err *err);
orr_status orr_os_read_part(int file, char *to, size_t size, size_t *got, orr_err *err);
void orr_os_close(int file);
/* Replaces a file as a whole: a temporary beside it, then a rename. ORR_E_WRITE. */
orr_status orr_os_write_file(const char *path, const char *bytes, size_t length, orr_err *err);
/* Sees to it that a folder is there to write in; its parent must be. ORR_E_WRITE. */
orr_status orr_os_make_folder(const char *path, orr_err *err);
/* Names in a folder that end in `suffix`, sorted by their bytes. ORR_E_IO, or ORR_E_LIMIT beyond
 * `max` of them. */
orr_status orr_os_list(orr_arena *arena, const char *folder, const char *suffix, size_t max,
                       const char ***names, size_t *count, orr_err *err);

#endif
