/* diskcache.c: compiled objects by content: a folder of files <key>.so (and tune.c's <key>.way), the key a SHA-256 of all that
 * goes into an object.
 *
 * Called by build.c in the build thread. Any number of processes share a folder: a file appears by rename, complete, and is never
 * changed; who loses a race replaces it by the same bytes. A file is the object, then a trailer: the key (64), MAGIC (8), the
 * object's length (8, little-endian), SHA-256 in hex of all before it (64). What does not check is removed, and never loaded: a
 * truncated object would kill the process. Objects are code, so the folder must be the user's own, and no one else may write to
 * it.
 *
 * The compiler's part of the key is its real path, size and modification time: asking it for its version would cost a process
 * start in each program that finds everything in the cache. */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "DYNOCSO1" /* a change of the file format or of what the key is made of is a change here */
#define HEX ((size_t)64)
#define TRAILER (HEX + 8 + 8 + HEX)
#define FILE_LIMIT ((size_t)64 << 20)
#define TOUCH_S 3600       /* a file's time says when it was last used, to the hour */
#define STALE_S (2 * 3600) /* age at which an unfinished file is nobody's */

void dyn_diskcache_key(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source, char key[65]) {
    DynStr text = {0};
    dyn_str_printf(&text, "%s\nabi %d\nisa %s\ncompiler %s\n", MAGIC, DYN_NATIVE_ABI, dyn_isa_get()->name,
                   dyn_str_at(&c->identity));
    const char *word = dyn_str_at(&c->words);
    for (uint32_t i = 0; i < c->nwords; i++, word += strlen(word) + 1) {
        dyn_str_printf(&text, "word %s\n", word);
    }
    dyn_str_printf(&text, "flags %s\n%s", flags, source);
    if (text.failed) {
        key[0] = 0; /* no key: this build goes without the cache */
    } else {
        dyn_sha256_hex(text.at, text.n, key);
    }
    dyn_str_free(&text);
}

void dyn_diskcache_path(const DynBuildEnv *env, DynStr *path) {
    const char *base = dyn_compiler_env_get(env, "XDG_CACHE_HOME"), *home = dyn_compiler_env_get(env, "HOME");
    char buffer[4096];
    struct passwd entry, *user = NULL;
    if (env->cache_dir[0] != 0) {
        dyn_str_puts(path, env->cache_dir);
    } else if (base != NULL && base[0] == '/') { /* a relative one is to be ignored, says its specification */
        dyn_str_printf(path, "%s/dynoc", base);
    } else {
        if (home == NULL && getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &user) == 0 && user != NULL) {
            home = user->pw_dir;
        }
        if (home != NULL && home[0] == '/') {
            dyn_str_printf(path, "%s/.cache/dynoc", home);
        }
    }
}

/* mkdir, mode 0700; a folder that is there, or that a read-only file system can't have, is no failure. */
static int make_folder(const char *path) {
    if (mkdir(path, 0700) == 0) {
        return 0;
    }
    switch (errno) {
    case EEXIST:
    case EISDIR:
    case EROFS: return 0;
    default: return -1;
    }
}

/* mkdir -p, mode 0700. */
static int make_folders(const char *path) {
    DynStr part = {0};
    int done = 0;
    for (const char *at = path; done == 0 && *at != 0;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        part.n = 0;
        dyn_str_printf(&part, "%.*s", (int)(at - path), path);
        if (part.failed) {
            errno = ENOMEM;
        }
        done = part.failed || make_folder(part.at) < 0 ? -1 : 0;
    }
    dyn_str_free(&part);
    return done;
}

int dyn_diskcache_open(const DynBuildEnv *env, DynStr *why) {
    DynStr path = {0};
    struct stat st;
    dyn_diskcache_path(env, &path);
    if (path.n == 0 || path.failed) {
        dyn_str_puts(why, "there is no home folder to put it in");
        dyn_str_free(&path);
        return -1;
    }
    int fd = open(path.at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make_folders(path.at) == 0) {
        fd = open(path.at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        dyn_str_printf(why, "%s: %s", path.at, strerror(errno));
    } else if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        dyn_str_printf(why, "%s belongs to another user, or others may write to it", path.at);
        close(fd);
        fd = -1;
    }
    dyn_str_free(&path);
    return fd;
}

/* ---- The files. */

static void put_length(unsigned char out[8], uint64_t n) {
    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)(n >> (8 * i));
    }
}

/* Does the file check? Cuts it down to the object. */
static bool check_file(DynBlob *file, const char *key) {
    char sum[HEX + 1];
    unsigned char length[8];
    if (file->n <= TRAILER) {
        return false;
    }
    const unsigned char *trailer = file->at + file->n - TRAILER;
    put_length(length, file->n - TRAILER);
    if (memcmp(trailer, key, HEX) != 0 || memcmp(trailer + HEX, MAGIC, 8) != 0 || memcmp(trailer + HEX + 8, length, 8) != 0) {
        return false;
    }
    dyn_sha256_hex(file->at, file->n - HEX, sum);
    if (memcmp(trailer + HEX + 16, sum, HEX) != 0) {
        return false;
    }
    file->n -= TRAILER;
    return dyn_load_is_whole(file);
}

DynCacheFind dyn_diskcache_get(int folder, const char *key, DynBlob *object) {
    char name[HEX + 8];
    struct stat st;
    snprintf(name, sizeof(name), "%s.so", key);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return DYN_CACHE_MISS;
    }
    bool ours = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid();
    bool good = ours && dyn_blob_read(fd, FILE_LIMIT, object) == 0 && check_file(object, key);
    if (good && st.st_mtime < time(NULL) - TOUCH_S) {
        futimens(fd, NULL);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (good) {
        return DYN_CACHE_HIT;
    }
    dyn_blob_free(object);
    if (unlinkat(folder, name, 0) < 0) {
        unlinkat(folder, name, AT_REMOVEDIR);
    }
    return DYN_CACHE_DAMAGED;
}

static int write_object(int fd, const char *key, const DynBlob *object) {
    unsigned char *all = PyMem_RawMalloc(object->n + TRAILER);
    char sum[HEX + 1];
    if (all == NULL) {
        errno = ENOMEM;
        return -1;
    }
    unsigned char *trailer = all + object->n;
    memcpy(all, object->at, object->n);
    memcpy(trailer, key, HEX);
    memcpy(trailer + HEX, MAGIC, 8);
    put_length(trailer + HEX + 8, object->n);
    dyn_sha256_hex(all, object->n + HEX + 16, sum);
    memcpy(trailer + HEX + 16, sum, HEX);
    int done = dyn_blob_write(fd, all, object->n + TRAILER);
    PyMem_RawFree(all);
    return done;
}

int dyn_diskcache_put(int folder, const char *key, const DynBlob *object, DynStr *why) {
    static atomic_uint counter;
    char name[HEX + 8], unfinished[64];
    snprintf(name, sizeof(name), "%s.so", key);
    snprintf(unfinished, sizeof(unfinished), "%.16s-%ld-%u.tmp", key, (long)getpid(), atomic_fetch_add(&counter, 1));
    int fd = openat(folder, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int done = fd < 0 ? -1 : write_object(fd, key, object), error = errno;
    if (fd >= 0 && close(fd) < 0 && done == 0) {
        done = -1;
        error = errno;
    }
    if (done == 0 && renameat(folder, unfinished, folder, name) < 0) {
        done = -1;
        error = errno;
    }
    if (done < 0) {
        dyn_str_puts(why, strerror(error));
        unlinkat(folder, unfinished, 0);
    }
    return done;
}

/* ---- Keeping it small. */

typedef struct CacheFile {
    char name[HEX + 8];
    int64_t size, time;
} CacheFile;

static int by_time(const void *a, const void *b) {
    int64_t x = ((const CacheFile *)a)->time, y = ((const CacheFile *)b)->time;
    return (x > y) - (x < y);
}

static bool ends_with(const char *name, size_t n, const char *end) {
    return n >= strlen(end) && strcmp(name + n - strlen(end), end) == 0;
}

int dyn_diskcache_trim(int folder, int64_t limit) {
    DYN_VEC(CacheFile)
    files = {0};
    int64_t total = 0, now = (int64_t)time(NULL);
    int removed = 0, again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    struct dirent *e;
    struct stat st;
    if (dir == NULL && again >= 0) {
        close(again);
    }
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        size_t n = strlen(e->d_name);
        bool object = (n == HEX + 3 && ends_with(e->d_name, n, ".so")) || (n == HEX + 4 && ends_with(e->d_name, n, ".way")),
             unfinished = ends_with(e->d_name, n, ".tmp");
        if ((!object && !unfinished) || fstatat(folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (unfinished && (int64_t)st.st_mtime < now - STALE_S) {
            removed += unlinkat(folder, e->d_name, 0) == 0;
        }
        CacheFile file = {.size = (int64_t)st.st_blocks * 512, .time = (int64_t)st.st_mtime};
        if (object && (memcpy(file.name, e->d_name, n + 1), dyn_vec_push(&files, file)) == 0) {
            total += file.size;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (total > limit) {
        qsort(files.at, files.n, sizeof(CacheFile), by_time);
        for (uint32_t i = 0; i < files.n && total > limit / 4 * 3; i++) {
            removed += unlinkat(folder, files.at[i].name, 0) == 0;
            total -= files.at[i].size;
        }
    }
    dyn_vec_free(&files);
    return removed;
}
