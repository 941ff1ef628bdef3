/* log.h: log categories, counters, configuration as C sees them. The Python face (src/dynoc) sets them; C reads them without
 * touching Python. */
#ifndef DYN_LOG_H
#define DYN_LOG_H
#include "base/base.h"

/* Log categories: LOG(name, what it shows). API.md lists them; one Python logger "dynoc.<name>" each. */
#define DYN_LOG_CATEGORIES(LOG)                                                               \
    LOG(guards, "each guard of a new entry and the source line that needed it")               \
    LOG(recompiles, "why a new entry was recorded: the guard that failed, old value and new") \
    LOG(graph_breaks, "why a graph was broken: code, place, hint")                            \
    LOG(graph, "each captured graph")                                                         \
    LOG(bytecode, "code objects before and after rewriting")                                  \
    LOG(output_code, "generated C")                                                           \
    LOG(fusion, "what was fused, what was not, and why")                                      \
    LOG(schedule, "the kernels of a graph in order")                                          \
    LOG(cache, "disk cache and code cache: hits, misses, evictions")                          \
    LOG(perf, "time spent in each stage")
typedef enum DynLog {
#define LOG(name, what) DYN_LOG_##name,
    DYN_LOG_CATEGORIES(LOG)
#undef LOG
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

/* Configuration: CONFIG(type, name, default, what). Set from Python (dynoc.config, environment, pyproject.toml). */
#define DYN_CONFIG_NAMES(BOOLEAN, INTEGER, TEXT)                                                              \
    BOOLEAN(wait, false, "native code is ready before the call that recorded returns")                        \
    TEXT(cache_dir, "", "folder of the disk cache; empty: $XDG_CACHE_HOME/dynoc")                             \
    INTEGER(cache_limit, 8, 1, 4096, "entries for one code object")                                           \
    INTEGER(threads, 0, 0, 4096, "threads for kernels; 0: as many as the process may use")                    \
    TEXT(compiler, "", "C compiler; empty: the first of cc, gcc, clang")                                      \
    TEXT(cflags, "", "further compiler flags")                                                                \
    INTEGER(compile_timeout, 60, 1, 3600, "seconds after which a compiler is given up")                       \
    INTEGER(keep_memory, 256, 0, 1048576, "MiB of large arrays that have died, kept for the next ones")       \
    INTEGER(memory_limit, 0, 0, INT64_MAX,                                                                    \
            "bytes that entries may hold: over it the coldest go; 0: a tenth of the machine's memory")        \
    BOOLEAN(fast_math, false, "allow reassociation and approximate division in kernels")                      \
    BOOLEAN(fallback_random, true, "random numbers of PyTorch are its own stream; false: kernels make them")  \
    BOOLEAN(debug, false, "write a debug folder for each compilation")                                        \
    TEXT(debug_dir, "dynoc_debug", "where debug folders are made")                                            \
    TEXT(logs, "", "log categories, comma separated")                                                         \
    BOOLEAN(retire, true, "what takes longer served than in CPython is given up")                             \
    BOOLEAN(record_all, false, "under enable(), record functions without arrays too")                         \
    BOOLEAN(suppress_errors, true, "a failing back end falls back to plain Python")                           \
    BOOLEAN(dynamic, true, "sizes and Python numbers are run-time values")                                    \
    INTEGER(record_limit, 20000, 16, 10000000, "instructions recorded in one call; 100 operations double it") \
    INTEGER(force_bail, -1, -1, 1000000000, "test: bail out at the N-th recorded instruction")                \
    INTEGER(force_break, 0, 0, 1000000000, "test: a graph break in front of every N-th recorded instruction") \
    INTEGER(force_leave, -1, -1, 1000000000, "test: leave a compiled graph at the N-th snapshot")
typedef struct DynConfig {
#define BOOLEAN(name, dflt, what) bool name;
#define INTEGER(name, dflt, low, high, what) int64_t name;
#define TEXT(name, dflt, what) char *name;
    DYN_CONFIG_NAMES(BOOLEAN, INTEGER, TEXT)
#undef BOOLEAN
#undef INTEGER
#undef TEXT
} DynConfig;
extern DYN_HIDDEN DynConfig dyn_config;
DYN_HIDDEN int dyn_log_init(PyObject *module); /* adds config_names(), get_config(name), set_config(name, value),
                                                * log_names(), set_log(name, on), counters */

/* Monotonic nanoseconds. */
DYN_HIDDEN int64_t dyn_now_ns(void);
#endif
