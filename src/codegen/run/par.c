/* par.c: the one place where threads run kernels.
 *
 * exec.c calls dyn_par_for. The threads are those of the OpenMP runtime that the process has already (PyTorch's when it is
 * loaded), so that there is one pool; else libgomp, loaded at the first region; else there are none and work is serial. The
 * runtime is entered through GOMP_parallel, which GNU's, LLVM's and Intel's runtimes all have. In a child after fork a region
 * would hang: serial.
 *
 * On a machine that is busy with something else the other threads come late, and a region ends with the last of them. A region
 * in which the caller waited for longer than it worked is followed by a time without threads, some times as long as what was
 * lost: so little is lost in all on a busy machine, and little after a hiccup. While the compiler works for this process, it has
 * one of the processors, unless the program said how many threads it wants.
 *
 * Which thread runs a chunk is not fixed, what a chunk computes is: results don't depend on the number of threads. Each thread
 * starts with its own range of chunks (the same at every call, for its cache) and then helps the others. */
#define _GNU_SOURCE 1
#include "codegen/run/par.h"
#include "codegen/native.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define MAX_THREADS 256

/* ---- Floating-point state: control is rounding and flushing, flags the exceptions raised. */

#if defined(__x86_64__)
#define FLAG_BITS 0x3fu
static uint64_t fp_get(void) { return _mm_getcsr(); }
static void fp_set(uint64_t state) { _mm_setcsr((unsigned)state); }
#elif defined(__aarch64__)
#define FLAG_BITS 0x9fu
static uint64_t fp_get(void) { /* control in the upper half */
    uint64_t control, status;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    return control << 32 | status;
}
static void fp_set(uint64_t state) {
    __asm__ volatile("msr fpcr, %0" : : "r"(state >> 32));
    __asm__ volatile("msr fpsr, %0" : : "r"(state & 0xffffffffu));
}
#else
#define FLAG_BITS 0u
static uint64_t fp_get(void) { return 0; }
static void fp_set(uint64_t state) {}
#endif

/* ---- The OpenMP runtime. */

typedef struct Runtime {
    void (*parallel)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread_number)(void);
    int (*most_threads)(void); /* what the program allows: torch.set_num_threads, threadpoolctl, omp_set_num_threads */
    char path[];
} Runtime;
static _Atomic(const Runtime *) runtime; /* replaced when a better one shows up; never freed: somebody may be in it */
static atomic_bool looked;
static unsigned long long objects_seen; /* under dyn_load_lock, as a fork must not happen in the dynamic linker */
static atomic_bool forked;
static atomic_int regions; /* running now */

typedef struct Search {
    unsigned long long adds;
    int score;
    char path[1024];
} Search;

static int look_at_object(struct dl_phdr_info *info, size_t size, void *data) {
    static const char *const names[] = {"libgomp", "libomp", "libiomp5"};
    Search *s = data;
    s->adds = info->dlpi_adds;
    const char *slash = strrchr(info->dlpi_name, '/'), *base = slash == NULL ? info->dlpi_name : slash + 1;
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (strncmp(base, names[i], strlen(names[i])) == 0 && strlen(info->dlpi_name) < sizeof(s->path)) {
            int score = strstr(info->dlpi_name, "torch") != NULL ? 2 : 1;
            if (score > s->score) {
                s->score = score;
                memcpy(s->path, info->dlpi_name, strlen(info->dlpi_name) + 1);
            }
        }
    }
    return 0;
}

static void use_runtime(void *handle, const char *path) {
    void *parallel = handle == NULL ? NULL : dlsym(handle, "GOMP_parallel"), *number = NULL, *most = NULL;
    const Runtime *old = atomic_load(&runtime);
    if (parallel != NULL) {
        number = dlsym(handle, "omp_get_thread_num");
        most = dlsym(handle, "omp_get_max_threads");
    }
    bool known = old != NULL && (void *)old->parallel == parallel;
    if (number == NULL || most == NULL || known) {
        return;
    }
    Runtime *r = PyMem_RawMalloc(sizeof(*r) + strlen(path) + 1);
    if (r == NULL) {
        return;
    }
    memcpy(&r->parallel, &parallel, sizeof(parallel));
    memcpy(&r->thread_number, &number, sizeof(number));
    memcpy(&r->most_threads, &most, sizeof(most));
    memcpy(r->path, path, strlen(path) + 1);
    atomic_store_explicit(&runtime, r, memory_order_release);
}

static void look_for_runtime(bool load) {
    Search s = {0};
    dyn_load_lock(true);
    dl_iterate_phdr(look_at_object, &s);
    if (s.adds != objects_seen) {
        objects_seen = s.adds;
        if (s.score > 0) {
            use_runtime(dlopen(s.path, RTLD_LAZY | RTLD_NOLOAD), s.path);
        } else {
            use_runtime(RTLD_DEFAULT, "the program itself");
        }
    }
    if (load && atomic_load(&runtime) == NULL && !atomic_load(&looked)) {
        use_runtime(dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL), "libgomp.so.1");
    }
    if (load) {
        atomic_store(&looked, true);
    }
    dyn_load_lock(false);
}

void dyn_par_refresh(void) { look_for_runtime(false); }

const char *dyn_par_runtime(void) {
    const Runtime *r = atomic_load(&runtime);
    return r == NULL ? NULL : r->path;
}

void dyn_par_forked(void) {
    atomic_store(&regions, 0);
    atomic_store(&forked, true);
}

/* ---- How many threads. */

static int cpus_allowed(void) {
    for (int room = 1024; room <= 1 << 16; room *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        if (set == NULL) {
            break;
        }
        int n = sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)room), set) == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)room), set) : 0;
        CPU_FREE(set);
        if (n > 0) {
            return n;
        }
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Processors that a control group's quota is worth, rounded up; 0: no quota, or no such file. */
static int read_quota(const char *folder) {
    char path[1100];
    long long quota = 0, period = 0;
    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", folder);
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return 0;
    }
    int fields = fscanf(f, "%lld %lld", &quota, &period); /* "max 100000" has no first field */
    fclose(f);
    return fields == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static int cgroup_limit(void) {
    char line[1024], folder[1024] = "";
    int limit = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = 0;
            snprintf(folder, sizeof(folder), "%s", line + 3);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    for (bool more = true; more;) { /* the group and all that it is in */
        int n = read_quota(strcmp(folder, "/") == 0 ? "" : folder);
        if (n > 0 && (limit == 0 || n < limit)) {
            limit = n;
        }
        char *slash = strrchr(folder, '/');
        more = slash != NULL;
        if (more) {
            *slash = 0;
        }
    }
    return limit;
}

/* OMP_NUM_THREADS, else what the process may use. Looked up once. */
static int automatic_threads(void) {
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n > 0) {
        return n;
    }
    const char *set = getenv("OMP_NUM_THREADS");
    long asked = set == NULL ? 0 : strtol(set, NULL, 10);
    if (asked > 0) {
        n = asked > MAX_THREADS ? MAX_THREADS : (int)asked;
    } else {
        int quota = cgroup_limit();
        n = cpus_allowed();
        n = quota > 0 && quota < n ? quota : n;
    }
    atomic_store_explicit(&known, n, memory_order_relaxed);
    return n;
}

static _Thread_local int64_t wanted;

void dyn_par_limit(int64_t threads) { wanted = threads; }

int dyn_par_threads(void) {
    int n = wanted > 0 ? (int)wanted : automatic_threads();
    if (n <= 1 || atomic_load_explicit(&forked, memory_order_relaxed)) {
        return 1;
    }
    if (!atomic_load_explicit(&looked, memory_order_acquire)) {
        look_for_runtime(true);
    }
    const Runtime *r = atomic_load_explicit(&runtime, memory_order_acquire);
    int allowed = 1;
    if (r != NULL) {
        allowed = wanted > 0 ? n : r->most_threads();
    }
    n = allowed > 0 && allowed < n ? allowed : n;
    return n < MAX_THREADS ? n : MAX_THREADS;
}

/* ---- A region. */

typedef struct Range { /* a cache line each */
    _Atomic int64_t next;
    int64_t end;
    char padding[48];
} Range;
typedef struct Region {
    void (*fn)(void *ctx, int64_t chunk);
    void *ctx;
    const Runtime *runtime;
    pthread_t caller;
    uint64_t control; /* of the caller, flags clear */
    _Atomic uint64_t flags;
    int64_t worked_ns; /* by the caller: the rest it waited */
    int nranges;
    Range *ranges;
} Region;

static void run_chunks(Region *r, int first) {
    for (int i = 0; i < r->nranges; i++) {
        Range *range = &r->ranges[(first + i) % r->nranges];
        while (atomic_load_explicit(&range->next, memory_order_relaxed) < range->end) {
            int64_t chunk = atomic_fetch_add_explicit(&range->next, 1, memory_order_relaxed);
            if (chunk < range->end) {
                r->fn(r->ctx, chunk);
            }
        }
    }
}

static void region_body(void *data) { /* on every thread of the team */
    Region *r = data;
    int number = r->runtime->thread_number();
    if (pthread_equal(pthread_self(), r->caller)) {
        int64_t start = dyn_now_ns();
        run_chunks(r, number % r->nranges);
        r->worked_ns = dyn_now_ns() - start;
        return;
    }
    uint64_t own = fp_get();
    fp_set(r->control);
    run_chunks(r, number % r->nranges);
    atomic_fetch_or(&r->flags, fp_get() & FLAG_BITS);
    fp_set(own);
}

/* ---- Others come late. Of the one region that runs now. */

enum { GRACE_NS = 50 * 1000, LONGEST_REST_NS = 250 * 1000 * 1000, FIRST_TIMES = 8, MOST_TIMES = 32 };
static DynRest rest;

void dyn_rest_learn(DynRest *r, int64_t now_ns, int64_t worked_ns, int64_t waited_ns) {
    int64_t lost = waited_ns - worked_ns;
    if (lost <= GRACE_NS) {
        r->times /= 2;
        return;
    }
    if (r->times < FIRST_TIMES / 2) {
        r->times = FIRST_TIMES;
    } else {
        r->times = r->times < MOST_TIMES / 2 ? 2 * r->times : MOST_TIMES;
    }
    r->until_ns = now_ns + (lost < LONGEST_REST_NS / r->times ? lost * r->times : LONGEST_REST_NS);
}

static bool is_rest(void) {
    if (rest.until_ns != 0 && dyn_now_ns() >= rest.until_ns) {
        rest.until_ns = 0;
    }
    return rest.until_ns != 0;
}

static void run_parallel(void (*fn)(void *, int64_t), void *ctx, int64_t nchunks, int threads) {
    Range ranges[MAX_THREADS];
    Region r = {.fn = fn,
                .ctx = ctx,
                .runtime = atomic_load_explicit(&runtime, memory_order_acquire),
                .caller = pthread_self(),
                .control = fp_get() & ~(uint64_t)FLAG_BITS,
                .nranges = threads,
                .ranges = ranges};
    for (int i = 0; i < threads; i++) {
        atomic_init(&ranges[i].next, nchunks / threads * i + (nchunks % threads < i ? nchunks % threads : i));
        ranges[i].end = nchunks / threads * (i + 1) + (nchunks % threads < i + 1 ? nchunks % threads : i + 1);
    }
    int64_t start = dyn_now_ns();
    r.runtime->parallel(region_body, &r, (unsigned)threads, 0);
    int64_t now = dyn_now_ns();
    dyn_rest_learn(&rest, now, r.worked_ns, now - start - r.worked_ns);
    if (r.flags != 0) {
        fp_set(fp_get() | r.flags);
    }
}

int dyn_par_team(int64_t nchunks) {
    int threads = nchunks > 1 ? dyn_par_threads() : 1;
    if (threads > 1 && wanted == 0 && dyn_build_is_busy()) {
        threads--;
    }
    return threads > nchunks ? (int)nchunks : threads;
}

void dyn_par_for(void (*fn)(void *ctx, int64_t chunk), void *ctx, int64_t nchunks) {
    int threads = dyn_par_team(nchunks);
    if (threads > 1 && atomic_fetch_add(&regions, 1) == 0 && !is_rest()) {
        run_parallel(fn, ctx, nchunks, threads);
    } else { /* while another thread has the processors, or there is nothing to share */
        for (int64_t i = 0; i < nchunks; i++) {
            fn(ctx, i);
        }
    }
    if (threads > 1) {
        atomic_fetch_sub(&regions, 1);
    }
}
