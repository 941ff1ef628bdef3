/* reasons.c: the texts of reasons.def. Called by logs, counters, errors and the docs' table of graph breaks. Owns nothing. */
#include "base/base.h"

enum { AT_BREAK, AT_ARRAY, AT_BAIL, AT_REFUSE, AT_BACKEND };
static const struct {
    const char *code, *message, *hint;
    uint8_t where;
} reasons[DYN_R_COUNT] = {
    [DYN_R_OK] = {"OK", "nothing went wrong", "nothing to do", AT_BREAK},
#define REASON(code, where, message, hint) [DYN_R_##code] = {#code, message, hint, AT_##where},
#include "base/reasons.def"
#undef REASON
};

/* A number that is no reason can only come from a bug; it must not bring the program down. */
static DynReason known(DynReason r) { return (unsigned)r < DYN_R_COUNT ? r : DYN_R_INTERNAL; }

const char *dyn_reason_code(DynReason r) { return reasons[known(r)].code; }
const char *dyn_reason_message(DynReason r) { return reasons[known(r)].message; }
const char *dyn_reason_hint(DynReason r) { return reasons[known(r)].hint; }
bool dyn_reason_is_of_array(DynReason r) { return reasons[known(r)].where == AT_ARRAY; }

const char *dyn_reason_hint_for(DynReason r, const char *called) {
    static const struct {
        const char *name, *hint;
    } hints[] = {
#define HINT(name, hint) {name, hint},
#include "base/hints.def"
    };
    for (size_t i = 0; r == DYN_R_OPAQUE_CALL && called != NULL && i < DYN_COUNTOF(hints); i++) {
        size_t n = strlen(hints[i].name);
        bool fits = hints[i].name[n - 1] == ' ' ? strncmp(called, hints[i].name, n) == 0 : strcmp(called, hints[i].name) == 0;
        if (fits) {
            return hints[i].hint;
        }
    }
    return dyn_reason_hint(r);
}
