/* process.c: runs a program (the compiler) with a time limit and keeps what it writes.
 *
 * Called by compiler.c from the build thread, and by doctor.c. The program gets default signal dispositions (Python ignores
 * SIGPIPE, and a program may ignore SIGCHLD, which compilers can't live with) and a process group of its own: Ctrl-C in a
 * terminal doesn't reach it, and whatever it started is killed with it. Someone else in the process may reap our child
 * (os.wait()): then its exit status is not known, and the caller judges by the file it made. */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT_OUTPUT ((size_t)64 * 1024)
#define SLICE_NS ((int64_t)20 * 1000 * 1000)   /* how often a silent program is looked at */
#define KILL_WAIT_NS ((int64_t)2 * 1000000000) /* how long a killed one may take to go away */

static int start(char *const argv[], char *const envp[], int output, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    if (posix_spawn_file_actions_init(&files) != 0) {
        return ENOMEM;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&files, output, 1);
    error = error ? error : posix_spawn_file_actions_adddup2(&files, output, 2);
    error = error ? error : posix_spawnattr_setsigmask(&attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(&attributes, &all);
    error = error ? error : posix_spawnattr_setpgroup(&attributes, 0);
    error = error ? error
                  : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    error = error ? error : posix_spawn(pid, argv[0], &files, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Take what the pipe holds; false at its end. */
static bool drain(int fd, DynStr *output) {
    char buffer[4096];
    ssize_t n = read(fd, buffer, sizeof(buffer) - 1);
    if (n < 0) {
        return errno == EINTR || errno == EAGAIN;
    }
    for (ssize_t i = 0; i < n && output->n < KEPT_OUTPUT; i++) {
        if (buffer[i] != 0) {
            dyn_str_putc(output, buffer[i]);
        }
    }
    return n > 0;
}

/* Has it ended? Its status, or -1 when someone else took it. */
static bool has_ended(pid_t pid, int *status) {
    pid_t got;
    do {
        got = waitpid(pid, status, WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        *status = -1;
    }
    return got != 0;
}

/* Waits for the program's end; false when it had to be killed. */
static bool attend(pid_t pid, int fd, int64_t deadline, const atomic_bool *stop, DynStr *output, int *status) {
    bool open = true, ended = false;
    int64_t pause = 100 * 1000;
    while (!ended) {
        int64_t left = deadline - dyn_now_ns();
        if (left <= 0 || (stop != NULL && atomic_load(stop))) {
            return false;
        }
        if (open) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            int ready = poll(&p, 1, (int)((left < SLICE_NS ? left : SLICE_NS) / 1000000 + 1));
            open = ready <= 0 || drain(fd, output);
            ended = ready == 0 && has_ended(pid, status); /* something that it left behind holds the pipe open */
        } else {
            ended = has_ended(pid, status);
            if (!ended) {
                nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
            }
            pause = pause < SLICE_NS ? pause * 2 : pause;
        }
    }
    return true;
}

static void kill_group(pid_t pid) {
    int status;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* where the group isn't there yet */
    int64_t deadline = dyn_now_ns() + KILL_WAIT_NS;
    while (!has_ended(pid, &status) && dyn_now_ns() < deadline) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

DynProcessEnd dyn_process_run(char *const argv[], char *const envp[], int64_t timeout_s, _Atomic(int) *group,
                              const atomic_bool *stop, DynStr *output) {
    int ends[2], status = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        dyn_str_printf(output, "pipe: %s", strerror(errno));
        return DYN_PROCESS_FAILED;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    int error = start(argv, envp, ends[1], &pid);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        dyn_str_printf(output, "%s: %s\n", argv[0], strerror(error));
        return DYN_PROCESS_FAILED;
    }
    if (group != NULL) {
        atomic_store(group, pid);
    }
    bool ended = attend(pid, ends[0], dyn_now_ns() + timeout_s * 1000000000, stop, output, &status);
    if (group != NULL) {
        atomic_store(group, 0);
    }
    if (!ended) {
        kill_group(pid);
    }
    close(ends[0]);
    if (!ended) {
        return DYN_PROCESS_HUNG;
    }
    if (status != -1 && WIFSIGNALED(status)) {
        dyn_str_printf(output, "killed by signal %d\n", WTERMSIG(status));
    }
    return status == -1 || status == 0 ? DYN_PROCESS_OK : DYN_PROCESS_FAILED;
}
