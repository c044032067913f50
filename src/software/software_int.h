#ifndef ORR_SOFTWARE_INT_H
#define ORR_SOFTWARE_INT_H

#include "doc/doc.h"
#include "software/software.h"

/* A profile file is a map with a nested map for each section but the first. */
enum { ORR_SECTION_HEAD = 0, ORR_SECTION_TIME = 3, ORR_SECTION_COUNT = 5 };
extern const orr_schema orr_software_sections[ORR_SECTION_COUNT]; /* over orr_software */
extern const char *const orr_software_section_names[ORR_SECTION_COUNT];

#endif
