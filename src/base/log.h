/* log.h: log categories, counters, configuration as C sees them. The Python face (src/dynoc) sets them; C reads them without
 * touching Python. */
#ifndef DYN_LOG_H
#define DYN_LOG_H
#include "base/base.h"

/* Log categories: the rows of src/dynoc/logs.def. */
typedef enum DynLog {
#define LOG(name, what) DYN_LOG_##name,
#include "dynoc/logs.def"
    DYN_LOG_COUNT
} DynLog;
extern DYN_HIDDEN uint32_t dyn_log_mask;
extern DYN_HIDDEN const char *const dyn_log_names[DYN_LOG_COUNT];
extern DYN_HIDDEN const char *const dyn_log_what[DYN_LOG_COUNT];
static inline bool dyn_log_on(DynLog c) { return (dyn_log_mask >> c) & 1u; }
/* Send a record to the category's Python logger. Needs the GIL; keeps the current exception; failures are swallowed. */
DYN_HIDDEN void dyn_log(DynLog c, const char *format, ...) DYN_PRINTF(2, 3);
DYN_HIDDEN void dyn_log_text(DynLog c, const char *text);
/* Is this thread inside one of these calls: the Python code of loggers is running, which the hook lets pass. */
DYN_HIDDEN bool dyn_log_busy(void);
/* Something went wrong inside dynoc: a warning on the logger "dynoc", once for each distinct (reason, detail). */
DYN_HIDDEN void dyn_warn_once(DynReason r, const char *format, ...) DYN_PRINTF(2, 3);

/* Counters: dynoc.counters[group][key] += 1. Needs the GIL. dyn_count_reason counts under the reason's code. */
DYN_HIDDEN void dyn_count(const char *group, const char *key);
DYN_HIDDEN void dyn_count_reason(const char *group, DynReason r);
/* counters["calls"]: of the calls under enable() of functions that were seen to work on arrays, how many an artifact answered
 * from beginning to end, how many in part (CPython made the rest), and how many CPython made alone (those that were recorded
 * among them). */
typedef enum DynServed { DYN_SERVED, DYN_SERVED_PARTLY, DYN_SERVED_NOT } DynServed;
DYN_HIDDEN void dyn_count_call(DynServed how);

/* Configuration: the rows of src/dynoc/settings.def. Set from Python (dynoc.config, environment, pyproject.toml). */
typedef struct DynConfig {
#define BOOLEAN(name, dflt, what) bool name;
#define INTEGER(name, dflt, low, high, what) int64_t name;
#define TEXT(name, dflt, what) char *name;
#include "dynoc/settings.def"
} DynConfig;
extern DYN_HIDDEN DynConfig dyn_config;
DYN_HIDDEN int dyn_log_init(PyObject *module); /* adds config_names(), get_config(name), set_config(name, value),
                                                * log_names(), set_log(name, on), counters */

/* Monotonic nanoseconds. */
DYN_HIDDEN int64_t dyn_now_ns(void);
#endif
