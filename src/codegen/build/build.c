/* build.c: the queue between artifacts that want native code and the one background thread that makes it.
 *
 * evalframe/compile.c submits artifacts; the thread takes one job after another: what is loaded, disk cache, else compiler, then
 * load and publish. The thread is started at the first job, calls no Python API and never takes the GIL. What needs the GIL when
 * a job has ended (logs, counters, warnings, dropping the references to artifacts) is done by the next call that holds it:
 * dyn_build_poll.
 *
 * Who owns what: a job owns copies of its source and environment, and a reference to each artifact that waits for it. Jobs are
 * counted: one reference for the lists here, one for a caller of dyn_build_source. Lists, jobs' artifacts and counts are under
 * `lock`; a job's result belongs to the thread until the job is `done`.
 *
 * Fork: an idle thread ends before, and another one is started at the next job. The child has no thread, so it takes back what
 * was under way, and submits it again at the next poll. Exit: the compiler
 * is killed and the thread is waited for, at most a second. */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include "base/cpy.h"
#include "base/watch.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CACHE_LIMIT ((int64_t)512 << 20)
#define TRIM_EVERY 64 /* stores between two looks at the size of the cache folder */
#define STACK_SIZE ((size_t)1 << 20)
#define WAIT_STEP_NS ((int64_t)50 * 1000 * 1000) /* how long an interrupt may go unseen */
#define EXIT_WAIT_NS 1000000000L

typedef enum JobStage { UNWRITTEN, WRITING, WRITTEN } JobStage;

typedef struct Job {
    struct Job *next;
    int refs;
    bool closed; /* nobody may join any more */
    bool later;  /* behind all that are not */
    bool done, dropped;
    char *source;                 /* NULL: not written yet */
    const DynBuildWriter *writer; /* who writes it, from `what`; NULL: it came with the job */
    void *what;
    atomic_int stage; /* of writing */
    const DynToolchain *toolchain;
    uint64_t hash;
    DynBuildEnv *env;
    DYN_VEC(DynArtifact *)
    artifacts;
    DynBuildResult result;
    DynStr cache_note; /* why the cache was not used, or that a file was damaged */
    bool cache_unusable, cache_damaged;
    bool kept_elsewhere; /* not in the folder of the setting objects_dir; the detail says why */
    bool known;          /* the object was loaded already */
    DynLoaded *loaded;
    char key[65];
} Job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake, ended; /* for the thread; for those who wait */
static Job *queue, *running, *finished;
static atomic_int pending; /* jobs in queue and running; written under lock */
static bool started;       /* the thread exists */
static bool gone;          /* it has left, at exit */
static bool leaving;       /* it is to end when the queue is empty, for a fork */
static pthread_t thread;
static bool has_exit_handler;
static atomic_bool stopping;
static _Atomic(int) compiler_group; /* process group of the running compiler */
atomic_bool dyn_build_news;

/* ---- Jobs. */

static void release_job(Job *job) { /* under lock or when nobody else can know it; artifacts have been dropped */
    if (--job->refs > 0) {
        return;
    }
    PyMem_RawFree(job->source);
    dyn_compiler_env_free(job->env);
    dyn_vec_free(&job->artifacts);
    if (job->loaded != NULL) {
        dyn_load_release(job->loaded);
    }
    dyn_str_free(&job->result.detail);
    dyn_str_free(&job->cache_note);
    PyMem_RawFree(job);
}

static bool set_source(Job *job, const char *source) {
    size_t n = strlen(source);
    job->hash = dyn_hash64(source, n, 0);
    job->source = PyMem_RawMalloc(n + 1);
    if (job->source != NULL) {
        memcpy(job->source, source, n + 1);
    }
    return job->source != NULL;
}

/* source: NULL where a writer makes it. */
static Job *new_job(const char *source, const DynConfig *config, const DynToolchain *toolchain) {
    Job *job = PyMem_RawCalloc(1, sizeof(*job));
    if (job == NULL) {
        return NULL;
    }
    job->refs = 1;
    job->toolchain = toolchain;
    job->env = dyn_compiler_env_new(config);
    if (job->env == NULL || (source != NULL && !set_source(job, source))) {
        release_job(job);
        return NULL;
    }
    return job;
}

static bool same_env(const DynBuildEnv *a, const DynBuildEnv *b) {
    bool same_flags = strcmp(a->cflags, b->cflags) == 0 && a->fast_math == b->fast_math;
    return same_flags && strcmp(a->compiler, b->compiler) == 0 && strcmp(a->cache_dir, b->cache_dir) == 0;
}

/* What isn't written yet isn't compared: once it is, what has its key may be loaded already. */
static bool is_same(const Job *a, const Job *b) {
    return a->writer == NULL && b->writer == NULL && a->toolchain == b->toolchain && a->hash == b->hash &&
           strcmp(a->source, b->source) == 0 && same_env(a->env, b->env);
}

/* A job under way that will do for this one. */
static Job *find_same(const Job *job) {
    if (running != NULL && !running->closed && is_same(running, job)) {
        return running;
    }
    for (Job *j = queue; j != NULL; j = j->next) {
        if (is_same(j, job)) {
            return j;
        }
    }
    return NULL;
}

static void enqueue(Job *job, bool first) {
    Job **at = &queue;
    while (!first && *at != NULL) {
        bool stands_behind = job->later || !(*at)->later;
        if (!stands_behind) {
            break;
        }
        at = &(*at)->next;
    }
    job->next = *at;
    *at = job;
    pending++;
}

/* ---- The thread's work: no GIL, no lock. */

static void note_cache(Job *job, bool damaged, const char *text) {
    job->cache_unusable = job->cache_unusable || !damaged;
    job->cache_damaged = job->cache_damaged || damaged;
    if (job->cache_note.n == 0) {
        dyn_str_puts(&job->cache_note, text);
    }
}

/* A compiler that did not finish is not waited for a second time in this process, unless it is given another time limit. */
static DynStr hung;
static int64_t hung_timeout_s;

static bool has_hung(const Job *job, const DynCompiler *c) {
    return hung.n > 0 && hung_timeout_s == job->env->timeout_s && strcmp(dyn_str_at(&hung), dyn_str_at(&c->identity)) == 0;
}

static void remember_hung(const Job *job, const DynCompiler *c) {
    hung.n = 0;
    dyn_str_puts(&hung, dyn_str_at(&c->identity));
    hung_timeout_s = job->env->timeout_s;
}

/* The object for a job: the loaded one, or from disk, else from the compiler (and then onto the disk). */
static DynReason make_object(Job *job, const DynCompiler *compiler, const char *flags, DynBlob *object) {
    static int stores;
    DynStr why = {0};
    if (has_hung(job, compiler)) {
        dyn_str_puts(&job->result.detail, "it did not finish in time before, and is not started again");
        return DYN_R_COMPILER_HUNG;
    }
    dyn_diskcache_key(job->env, compiler, flags, job->source, job->key);
    job->loaded = dyn_load_find(job->key);
    if (job->loaded != NULL) {
        job->result.cached = job->known = true;
        return DYN_R_OK;
    }
    int folder = job->key[0] == 0 ? -1 : dyn_diskcache_open(job->env, &why);
    if (folder < 0 && why.n > 0) {
        note_cache(job, false, dyn_str_at(&why));
    }
    DynCacheFind find = folder < 0 ? DYN_CACHE_MISS : dyn_diskcache_get(folder, job->key, object);
    if (find == DYN_CACHE_DAMAGED) {
        note_cache(job, true, "removed a damaged file");
    }
    job->result.cached = find == DYN_CACHE_HIT;
    DynReason failure = DYN_R_OK;
    if (!job->result.cached) {
        failure =
            job->toolchain->run(job->env, compiler, flags, job->source, &compiler_group, &stopping, object, &job->result.detail);
        if (failure == DYN_R_COMPILER_HUNG) {
            remember_hung(job, compiler);
        }
        why.n = 0;
        if (failure == DYN_R_OK && folder >= 0 && dyn_diskcache_put(folder, job->key, object, &why) < 0) {
            note_cache(job, false, dyn_str_at(&why));
        } else if (failure == DYN_R_OK && folder >= 0 && stores++ % TRIM_EVERY == 0) {
            dyn_diskcache_trim(folder, CACHE_LIMIT);
        }
    }
    if (folder >= 0) {
        close(folder);
    }
    dyn_str_free(&why);
    return failure;
}

static DynReason write_source(Job *job) {
    DynStr text = {0};
    atomic_store(&job->stage, WRITING);
    DynReason why = job->writer->write(job->what, &text);
    if (why == DYN_R_OK && (text.failed || !set_source(job, dyn_str_at(&text)))) {
        why = DYN_R_NO_MEMORY;
    }
    atomic_store(&job->stage, WRITTEN);
    dyn_str_free(&text);
    return why;
}

static void run_job(Job *job, DynBlob *object) {
    DynCompiler compiler;
    DynStr flags = {0}, problem = {0};
    int64_t start = dyn_now_ns();
    DynReason why = job->writer != NULL ? write_source(job) : DYN_R_OK;
    job->toolchain->flags(job->env, &flags, NULL);
    if (why != DYN_R_OK) {
        dyn_str_puts(&job->result.detail, "its text can't be written");
    } else if (job->toolchain->find(job->env, &compiler, &job->result.detail) < 0) {
        why = DYN_R_NO_COMPILER;
    } else {
        why = flags.failed ? DYN_R_NO_MEMORY : make_object(job, &compiler, dyn_str_at(&flags), object);
        dyn_compiler_free(&compiler);
    }
    if (why == DYN_R_OK && job->loaded == NULL) {
        job->loaded = job->toolchain->load(job->env, object, job->key, &why, &problem);
        if (why == DYN_R_TOO_MANY_LOADED) {
            job->result.detail.n = 0; /* the command, which has nothing to do with it */
        }
        job->kept_elsewhere = job->loaded != NULL && problem.n > 0 && job->env->objects_dir[0] != 0;
        if (job->kept_elsewhere) {
            job->result.detail.n = 0;
        }
        if (job->loaded == NULL || job->kept_elsewhere) {
            dyn_str_puts(&job->result.detail, dyn_str_at(&problem));
        }
        dyn_par_refresh();
    }
    job->result.why = why;
    job->result.native = why == DYN_R_OK;
    job->result.start = start;
    job->result.seconds = (double)(dyn_now_ns() - start) * 1e-9;
    dyn_str_free(&flags);
    dyn_str_free(&problem);
}

/* The job is closed: its artifacts don't change. All of them share the loaded object, which has no state. */
static void publish(Job *job) {
    for (uint32_t i = 0; i < job->artifacts.n; i++) {
        DynArtifact *a = job->artifacts.at[i];
        long count = job->loaded == NULL ? 0 : dyn_load_table(job->loaded)->count;
        if (job->loaded != NULL && (count == dyn_artifact_kernel_count(a) || count == DYN_COUNT_UNKNOWN)) {
            dyn_artifact_publish(a, job->loaded);
        } else if (job->loaded != NULL) {
            dyn_artifact_fail(a, DYN_R_LOAD_FAILED, "the object has another number of kernels");
        } else {
            dyn_artifact_fail(a, job->result.why, dyn_str_at(&job->result.detail));
        }
    }
}

static _Atomic(int (*)(void *)) told; /* dyn_build_tell */

void dyn_build_tell(int (*new)(void *)) { atomic_store(&told, new); }

/* Not while the interpreter goes: it may be gone. That there is no room for the call is no loss: who waits looks again. */
static void tell(void) {
    int (*call)(void *) = atomic_load(&told);
    if (call != NULL && !dyn_cpy_is_finalizing()) {
        (void)dyn_cpy_call_soon(call);
    }
}

static void *thread_main(void *unused) {
    pthread_mutex_lock(&lock);
    while (!atomic_load(&stopping)) {
        if (queue == NULL && leaving) {
            break;
        }
        if (queue == NULL) {
            pthread_cond_wait(&wake, &lock);
            continue;
        }
        Job *job = running = queue;
        queue = job->next;
        pthread_mutex_unlock(&lock);
        DynBlob object = {0};
        run_job(job, &object);
        dyn_blob_free(&object);
        pthread_mutex_lock(&lock);
        job->closed = true;
        pthread_mutex_unlock(&lock);
        publish(job);
        pthread_mutex_lock(&lock);
        running = NULL;
        pending--;
        job->done = true;
        job->next = finished;
        finished = job;
        atomic_store(&dyn_build_news, true);
        pthread_cond_broadcast(&ended);
        tell();
    }
    gone = atomic_load(&stopping);
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- Start, fork, exit. */

static struct timespec after(int64_t ns) {
    ns += dyn_now_ns();
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* Called when the interpreter ends, and when the process does without that. The former comes before the destructors of libraries,
 * in which the thread may be: they run before what was registered with atexit when the thread started, as they were loaded later.
 */
static void stop_thread(void) {
    pthread_mutex_lock(&lock);
    if (atomic_exchange(&stopping, true)) {
        pthread_mutex_unlock(&lock);
        return;
    }
    pthread_cond_broadcast(&wake);
    int group = atomic_load(&compiler_group);
    if (group > 0) {
        kill(-group, SIGKILL);
    }
    struct timespec deadline = after(EXIT_WAIT_NS);
    while (started && !gone && pthread_cond_timedwait(&ended, &lock, &deadline) != ETIMEDOUT) {
        continue;
    }
    pthread_mutex_unlock(&lock);
}

/* Under lock. No signal is handled in the thread: they belong to Python's. 0 or an errno. */
static int start_thread(void) {
    pthread_attr_t attributes;
    sigset_t all, old;
    if (started) {
        return 0;
    }
    if (!has_exit_handler) {
        has_exit_handler = atexit(stop_thread) == 0;
        Py_AtExit(stop_thread); /* -1 where there is no room for one more: then it is atexit's alone */
    }
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&thread, &attributes, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        pthread_setname_np(thread, "dynoc-build");
        started = true;
    }
    return error;
}

static void init_conditions(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &attributes);
    pthread_cond_init(&ended, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Under lock. Programs are warned when they fork with threads: one that has nothing to do ends. */
static void end_idle_thread(void) {
    bool busy = running != NULL || queue != NULL || atomic_load(&stopping);
    if (!started || leaving || busy) {
        return;
    }
    leaving = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    started = leaving = false;
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    end_idle_thread();
    dyn_load_lock(true);
}

static void after_fork_parent(void) {
    dyn_load_lock(false);
    pthread_mutex_unlock(&lock);
}

/* What was under way comes back to the finished list as dropped. The running job's result was being written by a thread that
 * isn't here: it is forgotten, not freed. */
static void after_fork_child(void) {
    pthread_mutex_init(&lock, NULL);
    init_conditions();
    dyn_load_forked();
    dyn_par_forked();
    if (running != NULL) {
        running->result = (DynBuildResult){0};
        running->cache_note = (DynStr){0};
        running->loaded = NULL;
        running->next = queue;
        queue = running;
        running = NULL;
    }
    while (queue != NULL) {
        Job *job = queue;
        queue = job->next;
        job->done = job->dropped = true;
        for (uint32_t i = 0; i < job->artifacts.n; i++) {
            if (dyn_artifact_state(job->artifacts.at[i]) == 1) {
                dyn_artifact_unclaim(job->artifacts.at[i]);
            }
        }
        job->next = finished;
        finished = job;
    }
    pending = 0;
    started = false;
    atomic_store(&compiler_group, 0);
    atomic_store(&dyn_build_news, finished != NULL);
}

/* ---- With the GIL. */

static void report(const Job *job) {
    const DynBuildResult *r = &job->result;
    const char *what = job->cache_unusable ? "not used" : "miss";
    if (r->cached) {
        what = "hit";
    }
    if (job->dropped) {
        return;
    }
    dyn_count("cache", r->cached ? "hit" : "miss");
    if (DYN_UNLIKELY(dyn_watching != 0)) {
        dyn_watch_event("build", r->cached ? "disk cache" : "compiler", r->start, (int64_t)(r->seconds * 1e9), 0);
    }
    if (job->cache_unusable) {
        dyn_warn_once(DYN_R_CACHE_IO, "%s", dyn_str_at(&job->cache_note));
    }
    if (job->key[0] != 0) {
        dyn_log(DYN_LOG_cache, "disk cache %s: %.16s, %.1f ms%s%s", what, job->key, r->seconds * 1e3,
                job->cache_note.n > 0 ? ": " : "", dyn_str_at(&job->cache_note));
    }
    if (r->native) {
        for (uint32_t i = 0; i < job->artifacts.n; i++) {
            dyn_count("tier", "native");
        }
        if (job->kept_elsewhere) {
            dyn_warn_once(DYN_R_NO_FOLDER, "%s", dyn_str_at(&r->detail));
        }
        dyn_log(DYN_LOG_perf, "build%s: %.1f ms (%s)", job->later ? " of what can wait" : "", r->seconds * 1e3,
                r->cached ? "no compiler" : "compiled");
        return;
    }
    dyn_count_reason("build", r->why);
    dyn_warn_once(r->why, "%.1000s", dyn_str_at(&r->detail));
}

/* For `timing.txt` of a debug folder. */
static void note_times(const Job *job) {
    const DynBuildResult *r = &job->result;
    DynStr line = {0};
    const char *how = r->native ? "by the compiler" : "failed";
    if (r->cached) {
        how = job->known ? "was loaded already" : "from the cache folder";
    }
    const char *object = job->key[0] != 0 ? job->key : "without a key";
    dyn_str_printf(&line, "compiler  %9.1f us, object %.16s, %s\n", r->seconds * 1e6, object, how);
    for (uint32_t i = 0; i < job->artifacts.n && !line.failed; i++) {
        dyn_artifact_note_build(job->artifacts.at[i], dyn_str_at(&line));
    }
    dyn_str_free(&line);
}

/* Artifacts of a job that a fork dropped ask again, if anybody still has them but the job and its draft. */
static void drop_artifacts(Job *job) {
    int references = job->writer == NULL ? 1 : 2;
    for (uint32_t i = 0; i < job->artifacts.n; i++) {
        DynArtifact *a = job->artifacts.at[i];
        if (!job->dropped) {
            dyn_artifact_settle(a);
        } else if (dyn_artifact_state(a) == 0 && dyn_artifact_has_owner(a, references)) {
            dyn_build_submit(a, false);
        }
        dyn_artifact_decref(a);
    }
    job->artifacts.n = 0;
}

void dyn_build_reap(void) {
    pthread_mutex_lock(&lock);
    Job *list = finished;
    finished = NULL;
    atomic_store(&dyn_build_news, false);
    pthread_mutex_unlock(&lock);
    while (list != NULL) {
        Job *job = list;
        list = job->next;
        report(job);
        if (!job->dropped) {
            note_times(job);
        }
        drop_artifacts(job);
        if (job->writer != NULL) {
            job->writer->written(job->what, job->dropped && atomic_load(&job->stage) == WRITING);
        }
        pthread_mutex_lock(&lock);
        release_job(job);
        pthread_mutex_unlock(&lock);
    }
}

static void warn_refused_flags(const Job *job) {
    DynStr flags = {0}, refused = {0};
    job->toolchain->flags(job->env, &flags, &refused);
    if (refused.n > 0) {
        dyn_warn_once(DYN_R_CFLAGS_REFUSED, "%s", dyn_str_at(&refused));
    }
    dyn_str_free(&flags);
    dyn_str_free(&refused);
}

/* Puts a job into the queue, or its artifact into one that is there. Takes over the job. `job_out` gets a reference when it isn't
 * NULL. An errno when that fails: the job is gone then, and the artifact as before. */
static int submit(Job *job, DynArtifact *a, bool first, Job **job_out) {
    pthread_mutex_lock(&lock);
    Job *same = find_same(job), *into = same != NULL ? same : job;
    int error = start_thread();
    if (error == 0 && a != NULL && dyn_vec_push(&into->artifacts, a) < 0) {
        error = ENOMEM;
    }
    if (error == 0 && same == NULL) {
        enqueue(job, first);
    }
    if (error == 0 && job_out != NULL) {
        into->refs++;
        *job_out = into;
    }
    if (error != 0 || same != NULL) {
        release_job(job);
    }
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    return error;
}

/* Without the GIL until *done says so. Not left for signals: their handlers run when the caller is back in Python. */
/* Has somebody pressed Ctrl-C? The interrupt stays for the program, whose code it reaches when this call is through. */
static bool is_interrupted(void) {
    bool is = PyOS_InterruptOccurred() != 0;
    if (is) {
        PyErr_SetInterrupt();
    }
    return is;
}

/* Off the GIL, until that is done or a twentieth of a second is over: is it done? */
static bool wait_shortly(bool (*done)(void *what), void *what, int *jobs) {
    PyThreadState *ts = PyEval_SaveThread();
    pthread_mutex_lock(&lock);
    struct timespec deadline = after(WAIT_STEP_NS);
    while (!done(what) && pthread_cond_timedwait(&ended, &lock, &deadline) != ETIMEDOUT) {
        continue;
    }
    bool is = done(what);
    *jobs = pending;
    pthread_mutex_unlock(&lock);
    PyEval_RestoreThread(ts);
    return is;
}

/* firmly: an interrupt doesn't end the wait. */
static void wait_until(bool (*done)(void *what), void *what, bool firmly) {
    DynProgress progress = {0};
    int jobs;
    while (!wait_shortly(done, what, &jobs) && (firmly || !is_interrupted())) {
        dyn_progress_show(&progress, jobs);
    }
    dyn_progress_end(&progress);
}

static bool artifact_is_settled(void *a) { return dyn_artifact_state(a) != 1; }
static bool job_is_done(void *job) { return ((Job *)job)->done; }

/* NULL: no memory. */
static Job *new_draft_job(DynArtifact *a) {
    const DynBuildWriter *writer = NULL;
    void *what = dyn_draft_new(a, &writer);
    Job *job = what == NULL ? NULL : new_job(NULL, dyn_artifact_config(a), dyn_artifact_toolchain(a));
    if (job != NULL) {
        job->writer = writer;
        job->what = what;
    } else if (what != NULL) {
        writer->written(what, false);
    }
    return job;
}

static Job *new_artifact_job(DynArtifact *a, bool drafted) {
    Job *job = drafted ? new_draft_job(a) : new_job(dyn_artifact_text(a), dyn_artifact_config(a), dyn_artifact_toolchain(a));
    if (job != NULL) {
        job->later = dyn_artifact_is_later(a);
        warn_refused_flags(job);
    }
    return job;
}

void dyn_build_submit(DynArtifact *a, bool wait) {
    dyn_build_poll();
    bool drafted = dyn_draft_is_due(a);
    if (!drafted && dyn_artifact_text(a)[0] == 0 && dyn_artifact_state(a) != 1) {
        return; /* no kernels, so nothing to build, or it is built */
    }
    if (dyn_artifact_claim(a)) {
        Job *job = new_artifact_job(a, drafted);
        const DynBuildWriter *writer = job == NULL ? NULL : job->writer;
        void *what = job == NULL ? NULL : job->what;
        dyn_artifact_incref(a);
        int error = job == NULL ? ENOMEM : submit(job, a, wait, NULL);
        if (error != 0 && writer != NULL) {
            writer->written(what, false);
        }
        if (error != 0) {
            dyn_artifact_fail(a, DYN_R_NO_MEMORY, strerror(error));
            dyn_artifact_decref(a);
            return;
        }
    }
    if (!wait) {
        return;
    }
    wait_until(artifact_is_settled, a, false);
    dyn_build_poll();
}

int dyn_build_source(const char *source, DynBuildResult *out) {
    Job *job = new_job(source, &dyn_config, &dyn_toolchain_c);
    dyn_build_poll();
    if (job == NULL) {
        return -1;
    }
    warn_refused_flags(job);
    if (submit(job, NULL, false, &job) != 0) {
        return -1;
    }
    wait_until(job_is_done, job, true);
    pthread_mutex_lock(&lock);
    *out = job->result;
    out->detail = (DynStr){0};
    dyn_str_puts(&out->detail, dyn_str_at(&job->result.detail));
    release_job(job);
    pthread_mutex_unlock(&lock);
    dyn_build_poll();
    return 0;
}

/* ---- Text without an artifact: whoever asks for it has a reference to its job. */

DynBuildText *dyn_build_text(const DynBuildWriter *writer, void *what, bool first) {
    dyn_build_poll();
    Job *job = new_job(NULL, &dyn_config, writer->toolchain);
    if (job == NULL) {
        return NULL;
    }
    job->writer = writer;
    job->what = what;
    warn_refused_flags(job);
    return submit(job, NULL, first, &job) != 0 ? NULL : (DynBuildText *)job;
}

/* With a reference of its own: while this thread waits another one may give back the caller's. */
void dyn_build_text_wait(DynBuildText *t) {
    Job *job = (Job *)t;
    pthread_mutex_lock(&lock);
    job->refs++;
    pthread_mutex_unlock(&lock);
    wait_until(job_is_done, job, false);
    dyn_build_poll();
    dyn_build_text_free(t);
}

bool dyn_build_text_is_written(const DynBuildText *t) { return atomic_load(&((const Job *)t)->stage) == WRITTEN; }

DynBuildTextState dyn_build_text_state(const DynBuildText *t) {
    const Job *job = (const Job *)t;
    pthread_mutex_lock(&lock);
    DynBuildTextState state = !job->done ? DYN_TEXT_WAITING : job->loaded != NULL ? DYN_TEXT_LOADED : DYN_TEXT_FAILED;
    state = job->dropped ? DYN_TEXT_DROPPED : state;
    pthread_mutex_unlock(&lock);
    return state;
}

DynLoaded *dyn_build_text_loaded(const DynBuildText *t) {
    return dyn_build_text_state(t) == DYN_TEXT_LOADED ? ((const Job *)t)->loaded : NULL;
}

void *dyn_build_text_symbol(const DynBuildText *t, const char *name) {
    DynLoaded *loaded = dyn_build_text_loaded(t);
    return loaded == NULL ? NULL : dyn_load_symbol(loaded, name);
}

DynReason dyn_build_text_failure(const DynBuildText *t, const char **detail) {
    const Job *job = (const Job *)t;
    bool failed = dyn_build_text_state(t) == DYN_TEXT_FAILED;
    if (detail != NULL) {
        *detail = failed ? dyn_str_at(&job->result.detail) : "";
    }
    return failed ? job->result.why : DYN_R_OK;
}

void dyn_build_text_free(DynBuildText *t) {
    pthread_mutex_lock(&lock);
    release_job((Job *)t);
    pthread_mutex_unlock(&lock);
}

bool dyn_build_is_busy(void) { return atomic_load_explicit(&pending, memory_order_relaxed) > 0; }

static bool nothing_is_pending(void *unused) { return pending == 0; }

/* A poll submits again what a fork dropped, and the second part of a text that was written in two. */
void dyn_build_wait_all(void) {
    DynProgress progress = {0};
    bool signalled = false;
    int jobs = 1;
    while ((jobs > 0 || atomic_load(&dyn_build_news)) && !signalled) {
        dyn_build_poll();
        wait_shortly(nothing_is_pending, NULL, &jobs);
        dyn_progress_show(&progress, jobs);
        signalled = PyErr_CheckSignals() < 0;
    }
    dyn_progress_end(&progress);
    dyn_build_poll();
}

bool dyn_build_is_started(void) {
    pthread_mutex_lock(&lock);
    bool is = started;
    pthread_mutex_unlock(&lock);
    return is;
}

int dyn_build_init(void) {
    init_conditions();
    int error = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    if (error == 0) {
        return 0;
    }
    errno = error;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}
