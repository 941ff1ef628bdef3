/* ticks.c: a thread that sleeps, and asks for a pending call when it wakes, which calls those who want to be called. Called by
 * finder.c, loop_watch.c and loops_ticks.c, with the GIL; the thread itself never has it. There is one thread at most; who is the
 * last to stop waits for its end. In front of a fork it ends too, and behind one it is begun again in both processes. */
#define _GNU_SOURCE 1
#include "evalframe/ticks.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define FIRST_MS 8
#define LONGEST_MS 500
#define CLIENTS 3
#define FORK_DEPTH 8   /* of functions that run behind a fork, and what they call */
#define MOST_SPARED 32 /* calls in a row that don't come as a native loop runs: it may call Python code that is of interest */

/* Who wants to be called; with the GIL. */
typedef struct Client {
    DynTicked *call;     /* NULL: nobody */
    unsigned ms, waited; /* how often it wants to be, and since when it wasn't */
} Client;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the thread is to look whether it is to go on */
    pthread_t thread;
    bool on;            /* there is a thread; with the lock, or the GIL */
    bool paused;        /* It ended for a fork. */
    atomic_bool asked;  /* a call that has not come yet */
    atomic_uint ms;     /* the shortest of all clients' */
    atomic_uint native; /* native loops that run */
    Client clients[CLIENTS];
} ticks = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Each client is asked when its time has come: its answer says when the next one does. Clients come and go in these calls. */
static void ask_clients(void) {
    unsigned slept = atomic_load(&ticks.ms), least = LONGEST_MS;
    for (int i = 0; i < CLIENTS; i++) {
        Client *c = &ticks.clients[i];
        DynTicked *call = c->call;
        c->waited += slept;
        if (call == NULL || c->waited < c->ms) {
            continue;
        }
        DynTick tick = call(c->waited);
        unsigned longer = c->ms + c->ms / 8 + 1;
        if (c->call == call) {
            c->ms = tick == DYN_TICK_USEFUL ? FIRST_MS : longer < LONGEST_MS ? longer : LONGEST_MS;
            c->waited = 0;
        }
        if (c->call == call && tick == DYN_TICK_LAST) {
            dyn_ticks_stop(call);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        const Client *c = &ticks.clients[i];
        least = c->call != NULL && c->ms < least ? c->ms : least;
    }
    atomic_store(&ticks.ms, least);
    atomic_store(&ticks.asked, false);
}

/* What clients call may take long, as the import of NumPy does. */
static int on_tick(void *unused) {
    if (dyn_cpy_is_finalizing()) {
        return 0;
    }
    dyn_cpy_hold_signals();
    ask_clients();
    dyn_cpy_release_signals();
    return 0;
}

/* A call makes a native loop leave, and CPython goes on until it comes to its header again. */
static bool is_spared(void) {
    static unsigned spared;
    bool native = atomic_load_explicit(&ticks.native, memory_order_relaxed) > 0;
    spared = native && spared < MOST_SPARED ? spared + 1 : 0;
    return spared > 0;
}

static void change_native(int by) {
    unsigned n = atomic_load_explicit(&ticks.native, memory_order_relaxed);
    atomic_store_explicit(&ticks.native, n + (unsigned)by, memory_order_relaxed); /* with the GIL: nobody else does */
}

void dyn_ticks_native_begins(void) { change_native(1); }

void dyn_ticks_native_ends(void) { change_native(-1); }

static void *thread_main(void *unused) {
    pthread_mutex_lock(&ticks.lock);
    while (ticks.on) {
        struct timespec until;
        unsigned ms = atomic_load(&ticks.ms);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(ms % 1000) * 1000000;
        until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        bool slept = pthread_cond_timedwait(&ticks.wake, &ticks.lock, &until) != 0;
        if (!ticks.on || !slept || is_spared()) {
            continue;
        }
        if (atomic_exchange(&ticks.asked, true)) {
            dyn_cpy_look_again();
        } else if (dyn_cpy_call_soon(on_tick) < 0) {
            atomic_store(&ticks.asked, false); /* too many wait already */
        }
    }
    pthread_mutex_unlock(&ticks.lock);
    return NULL;
}

static bool gone; /* the interpreter goes, and no thread is begun any more */

static PyObject *stop_all(PyObject *self, PyObject *none) {
    gone = true;
    for (int i = 0; i < CLIENTS; i++) {
        if (ticks.clients[i].call != NULL) {
            dyn_ticks_stop(ticks.clients[i].call);
        }
    }
    Py_RETURN_NONE;
}

/* The thread must have ended when the interpreter does: what it calls then isn't there any more. */
static bool end_at_exit(void) {
    static PyMethodDef method = {"_stop_ticks", stop_all, METH_NOARGS, NULL};
    PyObject *module = dyn_import("atexit"), *call = module == NULL ? NULL : PyCFunction_New(&method, NULL);
    PyObject *done = call == NULL ? NULL : PyObject_CallMethod(module, "register", "O", call);
    bool registered = done != NULL;
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(call);
    Py_XDECREF(module);
    return registered;
}

static void stop_thread(void) {
    pthread_mutex_lock(&ticks.lock);
    bool on = ticks.on;
    ticks.on = false;
    if (on) {
        pthread_cond_signal(&ticks.wake);
    }
    pthread_mutex_unlock(&ticks.lock);
    if (on) {
        pthread_join(ticks.thread, NULL);
    }
}

/* Programs are warned when they fork with threads: ours ends before that. */
static void before_fork(void) {
    ticks.paused = ticks.paused || ticks.on;
    stop_thread();
}

static const DynFrame *forking; /* the frame that calls Python's fork, only compared; NULL: none is known to */

void dyn_ticks_fork_begins(void) { forking = dyn_frame_complete(dyn_frame_current(PyThreadState_Get())); }

/* Does that frame wait for a call? */
static bool is_forking(void) {
    DynFrame *f = forking == NULL ? NULL : dyn_frame_complete(dyn_frame_current(PyThreadState_Get()));
    for (int depth = 0; f != NULL && depth < FORK_DEPTH; depth++) {
        f = dyn_frame_caller(f);
        if (f == forking) {
            return f != NULL;
        }
    }
    return false;
}

static void start_thread(void);

static void go_on_now(void) {
    if (ticks.paused && !ticks.on && !gone) {
        start_thread();
    }
    ticks.paused = false;
    forking = NULL;
}

static int go_on(void *unused);

void dyn_ticks_go_on(void) {
    if (ticks.paused && dyn_cpy_call_soon(go_on) < 0) {
        go_on_now(); /* Too many calls wait. */
    }
}

/* Python warns of threads when the functions have run that are to run behind a fork, of which some are Python's, and ours among
 * them. */
static int go_on(void *unused) {
    if (is_forking()) {
        dyn_ticks_go_on();
    } else {
        go_on_now();
    }
    return 0;
}

/* Python says when it has forked (module.c), other libraries don't. Their child processes do without ticks: they begin another
 * program, as a rule. */
static void after_fork_in_parent(void) { dyn_ticks_go_on(); }

/* Once, and before the first call that needs ticks, as it takes longer than many a call: that the time of day is set moves no
 * tick. */
bool dyn_ticks_prepare(void) {
    static bool prepared;
    pthread_condattr_t attributes;
    if (prepared) {
        return true;
    }
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    prepared = pthread_cond_init(&ticks.wake, &attributes) == 0 && end_at_exit() &&
               pthread_atfork(before_fork, after_fork_in_parent, NULL) == 0;
    pthread_condattr_destroy(&attributes);
    return prepared;
}

static Client *client_of(DynTicked *call) {
    Client *found = NULL;
    for (int i = 0; i < CLIENTS && found == NULL; i++) {
        found = ticks.clients[i].call == call ? &ticks.clients[i] : NULL;
    }
    return found;
}

bool dyn_ticks_come(DynTicked *call) { return ticks.on && client_of(call) != NULL; }

static void start_thread(void) {
    sigset_t all, before;
    atomic_store(&ticks.ms, FIRST_MS);
    atomic_store(&ticks.asked, false);
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ticks.on = true;
    ticks.on = dyn_ticks_prepare() && !gone && pthread_create(&ticks.thread, NULL, thread_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A thread that sleeps for long is woken, and sleeps for a shorter time. */
void dyn_ticks_start(DynTicked *call) {
    Client *c = client_of(call);
    unsigned waited = c != NULL ? c->waited : 0;
    c = c != NULL ? c : client_of(NULL);
    *c = (Client){call, FIRST_MS, waited};
    if (ticks.on && atomic_exchange(&ticks.ms, FIRST_MS) == FIRST_MS) {
        return;
    }
    if (!ticks.on) {
        start_thread();
        return;
    }
    pthread_mutex_lock(&ticks.lock);
    pthread_cond_signal(&ticks.wake);
    pthread_mutex_unlock(&ticks.lock);
}

void dyn_ticks_stop(DynTicked *call) {
    Client *c = client_of(call);
    bool others = false;
    if (c != NULL) {
        c->call = NULL;
    }
    for (int i = 0; i < CLIENTS; i++) {
        others = others || ticks.clients[i].call != NULL;
    }
    if (!others) {
        ticks.paused = false;
        stop_thread();
    }
}
