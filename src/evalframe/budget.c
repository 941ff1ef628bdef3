/* budget.c: what dynoc may spend on functions that nobody asked for, so that enable() makes no program slower.
 *
 * Recording, compiling and trials cost time that only later calls give back. They are charged here, and what served calls are
 * known to have saved is credited. Something new is begun while what was spent stays below an allowance, a share of the
 * process's time so far, and what was gained: a program that gains nothing loses that share at most. Called by cache.c, hook.c,
 * profit.c and rent.c. GIL throughout. */
#include "evalframe/profit.h"
#include <time.h>

#define ALLOWANCE_NS 5e7 /* what a short program may spend in any case */
#define SHARE 0.01       /* of the process's time */

static double spent, gained; /* ns */

void dyn_budget_spend(double ns) { spent += ns; }

void dyn_budget_gain(double ns) { gained += ns; }

static double process_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

bool dyn_budget_affords(double ns) {
    double left = ALLOWANCE_NS + gained - spent - ns;
    return left >= 0 || left + SHARE * process_ns() >= 0;
}
