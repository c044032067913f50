/* Shared by the tools of the belt alone. */
#ifndef ORR_BELT_INT_H
#define ORR_BELT_INT_H

#include "base/text.h"
#include "belt/belt.h"

/* To so many decimal digits: readers of rows need no more. */
double belt_round(double value, int digits);
/* ORR_E_CANCELLED when the oracle's owner says so. */
orr_status belt_progress(const orr_oracle *oracle, const char *what, double done, double total,
                         orr_err *err);

#endif
