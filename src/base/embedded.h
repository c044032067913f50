/* The files of data/ as built into the library, sorted by path (made by cmake/embed.cmake). */
#ifndef ORR_BASE_EMBEDDED_H
#define ORR_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct orr_embedded {
    const char *path;  /* relative to data/, such as "hardware/h100.yaml" */
    const char *bytes; /* terminated */
    size_t length;
} orr_embedded;

extern const orr_embedded orr_embedded_files[]; /* ends with a NULL path */
extern const size_t orr_embedded_count;

#endif
