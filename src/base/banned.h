/* Calls that have no place here, made compile errors. The build includes this file first into every
 * source of the library and the binary; base itself may call what it wraps. */
#ifndef ORR_BASE_BANNED_H
#define ORR_BASE_BANNED_H

/* Headers that declare the names must come before the names are poisoned. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef __clang__ /* some of these are macros there; gcc is the judge */
#ifndef ORR_INSIDE_BASE
#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets atoi atol atof
#pragma GCC poison strtol strtoul strtoll strtod malloc calloc realloc free
/* Nothing is ever executed on a user's behalf. */
#pragma GCC poison system popen execl execlp execle execv execvp execve fork vfork posix_spawn
#endif
#pragma GCC poison localtime gmtime ctime asctime rand srand tmpnam mktemp alloca setjmp longjmp

#endif

#endif
