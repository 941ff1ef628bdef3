/* tune.c: mode="max-autotune": the same kernels compiled in several ways, each tried in calls that the program makes anyway.
 *
 * compile.c asks for it when an artifact is new, run.c asks at each call which way to take, and tells how long it took. A way is
 * a line before the generated text, so each is a text of its own for queue, compiler and cache, and gives the same bits. The ways
 * besides the artifact's own are artifacts that nobody else runs; the artifact owns them for as long as it lives, as a thread may
 * be in their code. Calls take turns while all have the sizes of the first; then the fastest stays, and a small file beside the
 * objects in the cache folder says so to later processes, which compile that one alone. All with the GIL. */
#define _GNU_SOURCE 1
#include "base/torch.h"
#include "codegen/build/build.h"
#include "codegen/run/run.h"
#include <fcntl.h>
#include <unistd.h>

static const struct Way {
    const char *name, *line;
} ways[] = {
    {"as usual", ""},
    {"vectors of 256 bits", "#pragma GCC target(\"prefer-vector-width=256\")\n"},
    {"loops unrolled", "#pragma GCC optimize(\"unroll-loops\")\n"},
};
enum { WAYS = DYN_COUNTOF(ways), TRIALS = 8 /* timed calls of each */, PATIENCE = 64 };
#define BETTER 0.97 /* of the usual way's time: less is noise */

struct DynTune {
    DynArtifact *way[WAYS]; /* [0]: the one that is tuned, borrowed */
    int64_t least_ns[WAYS];
    int trials[WAYS];
    bool done;
    uint64_t sizes; /* of the inputs in the calls that are compared; 0: none yet */
    int strangers;  /* calls in a row with others */
    char file[80];  /* in the cache folder; empty: no folder */
};

/* ---- what earlier processes found */

static int open_folder(const DynConfig *config) {
    DynStr why = {0};
    DynBuildEnv *env = dyn_compiler_env_new(config);
    int folder = env == NULL ? -1 : dyn_diskcache_open(env, &why);
    if (env != NULL) {
        dyn_compiler_env_free(env);
    }
    dyn_str_free(&why);
    return folder;
}

/* The key is that of the usual way's object: another compiler, flag or processor is tried anew. */
static void name_file(DynTune *t, const DynConfig *config, const char *source) {
    DynStr flags = {0}, why = {0};
    DynCompiler compiler;
    char key[65] = "";
    DynBuildEnv *env = dyn_compiler_env_new(config);
    if (env != NULL && dyn_compiler_find(env, &compiler, &why) == 0) {
        dyn_compiler_flags(env, &flags, NULL);
        dyn_diskcache_key(env, &compiler, dyn_str_at(&flags), source, key);
        dyn_compiler_free(&compiler);
    }
    if (key[0] != 0) {
        snprintf(t->file, sizeof(t->file), "%s.way", key);
    }
    if (env != NULL) {
        dyn_compiler_env_free(env);
    }
    dyn_str_free(&flags);
    dyn_str_free(&why);
}

/* 0 to WAYS - 1, -1: not known. */
static int read_choice(const DynTune *t, const DynConfig *config) {
    char text[2] = "";
    int folder = t->file[0] ? open_folder(config) : -1;
    int fd = folder < 0 ? -1 : openat(folder, t->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, text, 2);
    if (fd >= 0) {
        close(fd);
    }
    if (folder >= 0) {
        close(folder);
    }
    bool one_character = n == 2 && text[1] == '\n';
    return one_character && text[0] >= '0' && text[0] < '0' + WAYS ? text[0] - '0' : -1;
}

static void write_choice(const DynTune *t, const DynConfig *config, int way) {
    char text[2] = {(char)('0' + way), '\n'};
    int folder = t->file[0] ? open_folder(config) : -1;
    int fd = folder < 0 ? -1 : openat(folder, t->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (write(fd, text, sizeof(text)) != sizeof(text)) {
            unlinkat(folder, t->file, 0);
        }
        close(fd);
    }
    if (folder >= 0) {
        close(folder);
    }
}

/* ---- the ways */

static void put_way(DynStr *out, int way, const char *source) {
    dyn_str_puts(out, ways[way].line);
    dyn_str_puts(out, source);
}

static DynArtifact *other_way(const DynArtifact *a, int way) {
    DynStr text = {0};
    put_way(&text, way, dyn_str_at(&a->source));
    DynArtifact *made = text.failed ? NULL : dyn_artifact_new(a->target, a->loops, &text, a->graph, &a->config);
    dyn_str_free(&text);
    return made;
}

void dyn_artifact_tune(DynArtifact *a) {
    DynTune *t = a->nnative > 0 ? PyMem_RawCalloc(1, sizeof(*t)) : NULL;
    if (t == NULL) {
        return;
    }
    name_file(t, &a->config, dyn_str_at(&a->source));
    int choice = read_choice(t, &a->config);
    if (choice >= 0) {
        DynStr text = {0};
        put_way(&text, choice, dyn_str_at(&a->source));
        if (!text.failed) {
            dyn_str_free(&a->source);
            a->source = text;
            a->line = ways[choice].line;
            dyn_log(DYN_LOG_perf, "autotune: %s, as found before", ways[choice].name);
        }
        PyMem_RawFree(t);
        return;
    }
    a->tune = t;
    t->way[0] = a;
    for (int i = 1; i < WAYS; i++) {
        t->way[i] = other_way(a, i);
    }
}

void dyn_artifact_tune_submit(DynArtifact *a) {
    for (int i = 1; a->tune != NULL && i < WAYS; i++) {
        if (a->tune->way[i] != NULL) {
            dyn_build_submit(a->tune->way[i], false);
        }
    }
}

void dyn_tune_free(DynTune *t) {
    for (int i = 1; i < WAYS; i++) {
        if (t->way[i] != NULL) {
            dyn_artifact_decref(t->way[i]);
        }
    }
    PyMem_RawFree(t);
}

/* ---- calls */

static const DynNativeTable *table_of(const DynArtifact *a) {
    return a == NULL ? NULL : atomic_load_explicit(&a->table, memory_order_acquire);
}

static uint64_t sizes_of(const DynGraph *g, const DynRun *run) {
    uint64_t h = 1;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        DynArrayView v;
        if (dyn_array_view(run->inputs[i], &v)) {
            h = dyn_hash64(v.dims, sizeof(*v.dims) * v.ndim, h);
        }
    }
    return h | 1;
}

/* Is this a call that can be compared with those before? After some time of none the new sizes are those that count. */
static bool is_comparable(DynTune *t, uint64_t sizes) {
    if (t->sizes != sizes && t->sizes != 0 && ++t->strangers < PATIENCE) {
        return false;
    }
    if (t->sizes != sizes) {
        memset(t->trials, 0, sizeof(t->trials));
        t->sizes = sizes;
    }
    t->strangers = 0;
    return true;
}

DynTrial dyn_tune_start(DynArtifact *a, const DynRun *run) {
    DynTune *t = a->tune;
    DynTrial trial = {.table = table_of(a), .way = -1};
    if (t->done || trial.table == NULL || !is_comparable(t, sizes_of(a->graph, run))) {
        return trial;
    }
    for (int i = 0; i < WAYS; i++) {
        const DynNativeTable *table = table_of(t->way[i]);
        if (table != NULL && (trial.way < 0 || t->trials[i] < t->trials[trial.way])) {
            trial = (DynTrial){table, i, 0};
        }
    }
    trial.start = dyn_now_ns();
    return trial;
}

/* Each has been tried often enough, or can't be compiled. */
static bool is_enough(const DynTune *t) {
    for (int i = 0; i < WAYS; i++) {
        bool comes = t->way[i] != NULL && (dyn_artifact_state(t->way[i]) != 2 || table_of(t->way[i]) != NULL);
        if (comes && t->trials[i] < TRIALS) {
            return false;
        }
    }
    return true;
}

static void choose(DynArtifact *a) {
    DynTune *t = a->tune;
    DynStr text = {0};
    int best = 0;
    for (int i = 0; i < WAYS; i++) {
        bool better = t->trials[i] > 0 && (double)t->least_ns[i] < BETTER * (double)t->least_ns[0];
        best = better && (best == 0 || t->least_ns[i] < t->least_ns[best]) ? i : best;
        if (t->trials[i] > 0) {
            dyn_str_printf(&text, "%s%s %.1f us", text.n ? ", " : "", ways[i].name, (double)t->least_ns[i] * 1e-3);
        }
    }
    dyn_log(DYN_LOG_perf, "autotune: %s; taken: %s", dyn_str_at(&text), ways[best].name);
    dyn_str_free(&text);
    atomic_store_explicit(&a->table, table_of(t->way[best]), memory_order_release);
    t->done = true;
    write_choice(t, &a->config, best);
}

void dyn_tune_end(DynArtifact *a, const DynTrial *trial) {
    DynTune *t = a->tune;
    int64_t ns = dyn_now_ns() - trial->start;
    int i = trial->way;
    if (i < 0 || t->done) { /* another thread's call has decided meanwhile */
        return;
    }
    t->least_ns[i] = t->trials[i]++ == 0 || ns < t->least_ns[i] ? ns : t->least_ns[i];
    if (is_enough(t)) {
        choose(a);
    }
}
