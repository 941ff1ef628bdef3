/* load.c: a shared object in memory becomes loaded code.
 *
 * Called by build.c (build thread) and compiler.c. The bytes that were checked are the bytes that are loaded: they go into an
 * anonymous memory file, where nobody can truncate or replace them and where a noexec cache folder doesn't matter; where the
 * system forbids executable memory files, into a file in a private folder. A lock is held while loading, so that a fork never
 * happens inside the dynamic linker.
 *
 * An object that is loaded serves every graph with the same text. Who uses it is counted, from any thread; the build thread
 * alone finds and loads; whoever unloads does it under the lock under which they are found, so an object without users gets none
 * meanwhile. It stays, for the next graph like it, until there are MOST_UNUSED or MOST_LOADED, or memory is wanted back: each
 * takes two memory mappings of the 65,530 that Linux gives a process, and a process that has none left can't so much as start a
 * thread. */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif
#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE /* no other machine is known: its objects are not loaded */
#endif

#define OF_CUDA 190 /* EM_CUDA: a device's object */

#define MOST_LOADED 4000
#define MOST_UNUSED 256
#define PAGE ((size_t)4096)
#define LINKER ((size_t)1536) /* what the dynamic linker keeps of each, about */

struct DynLoaded {
    DynLoaded *next;
    atomic_int users;
    size_t bytes; /* of memory, about */
    void *handle; /* NULL: it isn't this machine's … */
    void *device; /* … but made of this, which `unload` gives back */
    void (*unload)(void *device);
    const DynNativeTable *table;
    char key[65]; /* empty: it can't be found again */
};
static DynLoaded *loaded; /* the last loaded first; changed under `loading` */
static int nloaded, most_loaded = MOST_LOADED;
static atomic_size_t bytes_loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

void dyn_load_lock(bool take) {
    if (take) {
        pthread_mutex_lock(&loading);
    } else {
        pthread_mutex_unlock(&loading);
    }
}

void dyn_load_forked(void) { pthread_mutex_init(&loading, NULL); }

bool dyn_load_is_whole(const DynBlob *object) {
    Elf64_Ehdr head;
    if (object->n < sizeof(head)) {
        return false;
    }
    memcpy(&head, object->at, sizeof(head));
    const unsigned char expected[EI_DATA + 1] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
    if (memcmp(head.e_ident, expected, sizeof(expected)) != 0) {
        return false;
    }
    if (head.e_machine == OF_CUDA) { /* the driver looks at it */
        return true;
    }
    if (head.e_type != ET_DYN || head.e_machine != MACHINE) {
        return false;
    }
    if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0) {
        return false;
    }
    if (head.e_phoff > object->n || (object->n - head.e_phoff) / sizeof(Elf64_Phdr) < head.e_phnum) {
        return false;
    }
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, object->at + head.e_phoff + (size_t)i * sizeof(segment), sizeof(segment));
        if (segment.p_offset > object->n || object->n - segment.p_offset < segment.p_filesz) {
            return false;
        }
    }
    return true;
}

/* dlopen takes a file for one that it has loaded already when the names are equal, and descriptors get used again: so each name
 * is spelled in its own way, by a pattern of "/." from a counter. */
static void *open_descriptor(int fd) {
    static unsigned counter; /* under `loading` */
    char name[32 + 2 * 32 + 16];
    size_t n = (size_t)snprintf(name, sizeof(name), "/proc/self/fd");
    for (unsigned bits = counter++; bits != 0; bits >>= 1) {
        n += (size_t)snprintf(name + n, sizeof(name) - n, bits & 1 ? "/." : "/");
    }
    snprintf(name + n, sizeof(name) - n, "/%d", fd);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *open_memory(const DynBlob *object, const char *key, DynStr *why) {
    char name[32];
    snprintf(name, sizeof(name), "dynoc-%.16s", key);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(name, MFD_CLOEXEC);
    }
    if (fd < 0) {
        dyn_str_printf(why, "memory file: %s; ", strerror(errno));
        return NULL;
    }
    void *handle = dyn_blob_write(fd, object->at, object->n) == 0 ? open_descriptor(fd) : NULL;
    if (handle == NULL) {
        const char *error = dlerror();
        dyn_str_printf(why, "%s; ", error != NULL ? error : strerror(errno));
    }
    close(fd);
    return handle;
}

/* As a new file at `path`. NULL: *error is why. */
static void *open_path(const DynStr *path, const DynBlob *object, const char **error) {
    int fd = path->failed ? -1 : open(path->at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool written = fd >= 0 && dyn_blob_write(fd, object->at, object->n) == 0;
    if (fd >= 0) {
        written = close(fd) == 0 && written;
    }
    void *handle = written ? dlopen(path->at, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (handle == NULL) {
        const char *said = written ? dlerror() : NULL;
        *error = said != NULL ? said : strerror(errno);
    }
    return handle;
}

static void *open_file(const DynBuildEnv *env, const DynBlob *object, DynStr *why) {
    DynStr path = {0};
    const char *error = "";
    void *handle = NULL;
    if (dyn_tempdir_make(env, &path, why) == 0) {
        uint32_t folder = path.n;
        dyn_str_puts(&path, "/kernels.so");
        handle = open_path(&path, object, &error);
        dyn_str_puts(why, handle == NULL ? error : "");
        path.at[folder] = 0;
        dyn_tempdir_remove(path.at);
    }
    dyn_str_free(&path);
    return handle;
}

/* As a file that stays: perf and gdb look for symbols by its name, also when the process is gone. */
static void *open_kept(const DynBuildEnv *env, const DynBlob *object, const char *key, DynStr *why) {
    static unsigned counter; /* under `loading` */
    DynStr path = {0};
    const char *error = "";
    void *handle = NULL;
    char *folder = mkdir(env->objects_dir, 0700) == 0 || errno == EEXIST ? realpath(env->objects_dir, NULL) : NULL;
    if (folder == NULL) {
        error = strerror(errno);
    } else {
        dyn_str_printf(&path, "%s/dynoc-%ld-%u-%.16s.so", folder, (long)getpid(), counter++, key);
        handle = open_path(&path, object, &error);
    }
    if (handle == NULL) {
        dyn_str_printf(why, "%s: %s", env->objects_dir, error);
    }
    free(folder);
    dyn_str_free(&path);
    return handle;
}

const DynNativeTable *dyn_load_table(const DynLoaded *l) { return l->table; }
void *dyn_load_symbol(const DynLoaded *l, const char *name) { return dlsym(l->handle, name); }
void *dyn_load_of_device(const DynLoaded *l) { return l->device; }
void dyn_load_retain(DynLoaded *l) { atomic_fetch_add(&l->users, 1); }
void dyn_load_release(DynLoaded *l) { atomic_fetch_sub(&l->users, 1); }

DynLoaded *dyn_load_find(const char *key) {
    pthread_mutex_lock(&loading);
    DynLoaded *l = key[0] == 0 ? NULL : loaded;
    while (l != NULL && strcmp(l->key, key) != 0) {
        l = l->next;
    }
    if (l != NULL) {
        dyn_load_retain(l);
    }
    pthread_mutex_unlock(&loading);
    return l;
}

/* Under `loading`. */
static int count_unused(void) {
    int n = 0;
    for (const DynLoaded *l = loaded; l != NULL; l = l->next) {
        n += atomic_load(&l->users) <= 0;
    }
    return n;
}

/* Under `loading`: what nobody uses goes. */
static void make_room(void) {
    for (DynLoaded **at = &loaded; *at != NULL;) {
        DynLoaded *l = *at;
        if (atomic_load(&l->users) > 0) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        if (l->handle != NULL) {
            dlclose(l->handle);
        } else {
            l->unload(l->device);
        }
        atomic_fetch_sub(&bytes_loaded, l->bytes);
        PyMem_RawFree(l);
        nloaded--;
    }
}

size_t dyn_load_bytes(int *n) {
    pthread_mutex_lock(&loading);
    int all = nloaded;
    pthread_mutex_unlock(&loading);
    if (n != NULL) {
        *n = all;
    }
    return atomic_load(&bytes_loaded);
}

void dyn_load_trim(void) {
    pthread_mutex_lock(&loading);
    make_room();
    pthread_mutex_unlock(&loading);
}

/* Under `loading`. */
static void add(DynLoaded *l, const char *key, size_t bytes) {
    snprintf(l->key, sizeof(l->key), "%s", key);
    atomic_init(&l->users, 1);
    l->bytes = bytes;
    atomic_fetch_add(&bytes_loaded, l->bytes);
    l->next = loaded;
    loaded = l;
    nloaded++;
}

DynLoaded *dyn_load_device(const char *key, size_t bytes, const DynNativeTable *table, void *device,
                           void (*unload)(void *device)) {
    DynLoaded *l = PyMem_RawCalloc(1, sizeof(*l));
    if (l == NULL) {
        return NULL;
    }
    l->device = device;
    l->unload = unload;
    l->table = table;
    pthread_mutex_lock(&loading);
    add(l, key, bytes);
    pthread_mutex_unlock(&loading);
    return l;
}

/* Under `loading`. */
static DynLoaded *load(const DynBuildEnv *env, const DynBlob *object, const char *key, DynReason *failure, DynStr *why) {
    if (nloaded >= most_loaded || count_unused() >= MOST_UNUSED) {
        make_room();
    }
    DynLoaded *l = nloaded >= most_loaded ? NULL : PyMem_RawCalloc(1, sizeof(*l));
    if (l == NULL) {
        *failure = nloaded >= most_loaded ? DYN_R_TOO_MANY_LOADED : DYN_R_NO_MEMORY;
        return NULL;
    }
    if (env->objects_dir[0] != 0) {
        l->handle = open_kept(env, object, key, why);
    }
    if (l->handle == NULL) {
        l->handle = open_memory(object, key, why);
    }
    if (l->handle == NULL) {
        l->handle = open_file(env, object, why);
    }
    l->table = l->handle == NULL ? NULL : dlsym(l->handle, DYN_NATIVE_SYMBOL);
    if (l->table == NULL || l->table->abi != DYN_NATIVE_ABI || l->table->count < 0) {
        if (l->handle != NULL) {
            dyn_str_printf(why, "it has no table %s of version %d", DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI);
            dlclose(l->handle);
        }
        *failure = DYN_R_LOAD_FAILED;
        PyMem_RawFree(l);
        return NULL;
    }
    add(l, key, (object->n + PAGE - 1) / PAGE * PAGE + PAGE + LINKER); /* one page of it is written to */
    return l;
}

DynLoaded *dyn_load_object(const DynBuildEnv *env, const DynBlob *object, const char *key, DynReason *failure, DynStr *why) {
    pthread_mutex_lock(&loading);
    DynLoaded *l = load(env, object, key, failure, why);
    pthread_mutex_unlock(&loading);
    return l;
}

int dyn_load_limit(int most) {
    pthread_mutex_lock(&loading);
    most_loaded = most;
    int n = nloaded;
    pthread_mutex_unlock(&loading);
    return n;
}
