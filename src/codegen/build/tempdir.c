/* tempdir.c: private folders for compilations, named dynoc-<user>-<process>-XXXXXX in the temporary folder.
 *
 * Called by compiler.c and load.c. The caller removes its folder; what a killed process left is removed by a later one. Also the
 * helpers that read and write whole files. */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STALE_S (2 * 3600) /* longer than any compilation may last */

void dyn_blob_free(DynBlob *b) {
    PyMem_RawFree(b->at);
    *b = (DynBlob){0};
}

int dyn_blob_read(int fd, size_t limit, DynBlob *out) {
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return -1;
    }
    if (st.st_size < 0 || (size_t)st.st_size > limit) {
        return -1;
    }
    size_t n = (size_t)st.st_size, have = 0;
    out->at = PyMem_RawMalloc(n + 1);
    if (out->at == NULL) {
        return -1;
    }
    while (have < n) {
        ssize_t got = pread(fd, out->at + have, n - have, (off_t)have);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break; /* shorter than it said: what there is fails the checks */
        }
        have += (size_t)got;
    }
    out->n = have;
    return 0;
}

int dyn_blob_write(int fd, const void *data, size_t n) {
    const char *p = data;
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return -1;
        }
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

void dyn_tempdir_remove(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(dirfd(dir), e->d_name, 0) < 0) {
            unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(path);
}

/* Once a process: folders whose process has gone without removing them. */
static void sweep(const char *parent) {
    DIR *dir = opendir(parent);
    struct dirent *e;
    char ours[64];
    snprintf(ours, sizeof(ours), "dynoc-%ld-", (long)geteuid());
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        struct stat st;
        if (strncmp(e->d_name, ours, strlen(ours)) != 0 || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        long pid = strtol(e->d_name + strlen(ours), NULL, 10);
        bool gone = pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
        bool our_folder = S_ISDIR(st.st_mode) && st.st_uid == geteuid();
        if (!gone || !our_folder || st.st_mtime > time(NULL) - STALE_S) {
            continue;
        }
        DynStr path = {0};
        dyn_str_printf(&path, "%s/%s", parent, e->d_name);
        dyn_tempdir_remove(dyn_str_at(&path));
        dyn_str_free(&path);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

int dyn_tempdir_make(const DynBuildEnv *env, DynStr *path, DynStr *why) {
    static atomic_bool swept;
    const char *const parents[] = {dyn_compiler_env_get(env, "TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
    int error = 0;
    for (size_t i = 0; i < DYN_COUNTOF(parents); i++) {
        if (parents[i] == NULL || parents[i][0] != '/') {
            continue;
        }
        path->n = 0;
        dyn_str_printf(path, "%s/dynoc-%ld-%ld-XXXXXX", parents[i], (long)geteuid(), (long)getpid());
        if (path->failed) {
            break;
        }
        if (mkdtemp(path->at) != NULL) { /* mode 0700 */
            if (!atomic_exchange(&swept, true)) {
                sweep(parents[i]);
            }
            return 0;
        }
        error = errno;
    }
    dyn_str_printf(why, "no temporary folder can be made: %s\n", strerror(error));
    return -1;
}
