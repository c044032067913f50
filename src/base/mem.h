/* The only door to libc's allocator, and what happens when it is shut.
 *
 * Inputs are bounded before anything is allocated for them, so running out of memory is a limit of
 * the machine, not a code path: orr_oom() reports through a handler set at start, then aborts. */
#ifndef ORR_BASE_MEM_H
#define ORR_BASE_MEM_H

#include <stddef.h>

typedef void (*orr_oom_fn)(size_t bytes);
void orr_oom_handler(orr_oom_fn fn); /* set once at start; must not return */

void *orr_alloc(size_t bytes);              /* zeroed; never NULL */
void *orr_realloc(void *old, size_t bytes); /* never NULL; growth is not zeroed */
void orr_release(void *memory);             /* NULL is fine */

/* On a large array of a hot path: the compiler's zeroing of locals is left out. Only entries that
 * were written may be read. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define ORR_UNSET __attribute__((uninitialized))
#endif
#endif
#ifndef ORR_UNSET
#define ORR_UNSET
#endif

#endif
