/* rent.c: when native code is asked for.
 *
 * A function that the program asked for is compiled at once. One that enable() found runs in the built-in tier (or in CPython,
 * where that can't serve it) until that has taken a part of what a compilation costs; then compiling is worth it if the function
 * goes on being called as it was. So a program of many small functions doesn't keep a compiler busy for nothing. Called by
 * compile.c and hit.c. GIL throughout. */
#include "evalframe/door.h"

#define COMPILATION_NS 1.2e8 /* of processor time, about */
#define ENOUGH_NS 2e7        /* spent in one entry */

void dyn_rent_buy(DynEntry *e) {
    e->rents = false;
    dyn_artifact_write(e->artifact);
    dyn_artifact_build(e->artifact, false);
    dyn_artifact_tune_submit(e->artifact);
    dyn_artifact_rest_submit(e->artifact);
}

bool dyn_rent_try_to_buy(DynEntry *e) {
    bool affords = dyn_budget_affords(COMPILATION_NS);
    if (affords) {
        dyn_budget_spend(COMPILATION_NS);
        dyn_count("profit", "compilations");
        dyn_rent_buy(e);
    }
    return affords;
}

void dyn_rent_pay(DynEntry *e, uint64_t cycles) {
    static uint64_t enough;
    if (enough == 0) {
        enough = dyn_cycles_of_ns(ENOUGH_NS);
    }
    e->rent += cycles;
    if (e->rent >= enough && !dyn_rent_try_to_buy(e)) {
        e->rent = enough / 2; /* asked again when as much has been spent once more */
    }
}
