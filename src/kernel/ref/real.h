/* The scalar expressions of the operator lists, in double. */
#ifndef NEAP_KERNEL_REF_REAL_H
#define NEAP_KERNEL_REF_REAL_H

#include <math.h>

typedef double real;
#define EXP(x)      exp(x)
#define LOG(x)      log(x)
#define TANH(x)     tanh(x)
#define ERF(x)      erf(x)
#define SQRT(x)     sqrt(x)
#define POWER(x, a) pow(x, a)
#include "op/elementwise_math.h"

#endif
