/* ticks.c: a thread that sleeps, and asks for a pending call when it wakes. Called by finder.c, with the GIL; the thread itself
 * never has it. There is one thread at most; who stops the ticks waits for its end, and a child process has none. */
#define _GNU_SOURCE 1
#include "evalframe/ticks.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define FIRST_MS 8
#define LONGEST_MS 500

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the thread is to look whether it is to go on */
    pthread_t thread;
    int (*call)(void *);
    bool on;           /* there is a thread; with the lock, or the GIL */
    atomic_bool asked; /* a call that has not come yet */
    atomic_uint ms;
} ticks = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
        if (!ticks.on || !slept) {
            continue;
        }
        if (atomic_exchange(&ticks.asked, true)) {
            dyn_cpy_look_again();
        } else if (dyn_cpy_call_soon(ticks.call) < 0) {
            atomic_store(&ticks.asked, false); /* too many wait already */
        }
    }
    pthread_mutex_unlock(&ticks.lock);
    return NULL;
}

/* Programs are told when they fork with threads: ours ends before that, and none is begun again. */
static void before_fork(void) { dyn_ticks_stop(); }

/* Once: that the time of day is set moves no tick. */
static bool prepare(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool done = pthread_cond_init(&ticks.wake, &attributes) == 0 && pthread_atfork(before_fork, NULL, NULL) == 0;
    pthread_condattr_destroy(&attributes);
    return done;
}

void dyn_ticks_start(int (*call)(void *)) {
    static bool prepared;
    sigset_t all, before;
    dyn_ticks_stop();
    prepared = prepared || prepare();
    ticks.call = call;
    atomic_store(&ticks.ms, FIRST_MS);
    atomic_store(&ticks.asked, false);
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ticks.on = true;
    ticks.on = prepared && pthread_create(&ticks.thread, NULL, thread_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void dyn_ticks_stop(void) {
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

void dyn_ticks_came(bool useful) {
    unsigned ms = atomic_load(&ticks.ms);
    atomic_store(&ticks.ms, useful ? FIRST_MS : ms + ms / 8 + 1 < LONGEST_MS ? ms + ms / 8 + 1 : LONGEST_MS);
    atomic_store(&ticks.asked, false);
}
