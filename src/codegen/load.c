/* load.c: a shared object in memory becomes loaded code.
 *
 * Called by build.c (build thread) and compiler.c. The bytes that were checked are the bytes that are loaded: they go into an
 * anonymous memory file, where nobody can truncate or replace them and where a noexec cache folder doesn't matter; where the
 * system forbids executable memory files, into a file in a private folder. Objects stay loaded for the life of the process. A
 * lock is held while loading, so that a fork never happens inside the dynamic linker. */
#define _GNU_SOURCE 1
#include "codegen/build.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
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

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

void dyn_load_lock(bool take) {
    if (take)
        pthread_mutex_lock(&loading);
    else
        pthread_mutex_unlock(&loading);
}

void dyn_load_forked(void) { pthread_mutex_init(&loading, NULL); }

bool dyn_load_is_whole(const DynBlob *object) {
    Elf64_Ehdr head;
    if (object->n < sizeof(head))
        return false;
    memcpy(&head, object->at, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN || head.e_machine != MACHINE ||
        head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum == 0)
        return false;
    if (head.e_phoff > object->n || (object->n - head.e_phoff) / sizeof(Elf64_Phdr) < head.e_phnum)
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, object->at + head.e_phoff + (size_t)i * sizeof(segment), sizeof(segment));
        if (segment.p_offset > object->n || object->n - segment.p_offset < segment.p_filesz)
            return false;
    }
    return true;
}

/* dlopen takes a file for one that it has loaded already when the names are equal, and descriptors get used again: so each name
 * is spelled in its own way, by a pattern of "/." from a counter. */
static void *open_descriptor(int fd) {
    static unsigned counter; /* under `loading` */
    char name[32 + 2 * 32 + 16];
    size_t n = (size_t)snprintf(name, sizeof(name), "/proc/self/fd");
    for (unsigned bits = counter++; bits != 0; bits >>= 1)
        n += (size_t)snprintf(name + n, sizeof(name) - n, bits & 1 ? "/." : "/");
    snprintf(name + n, sizeof(name) - n, "/%d", fd);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void *open_memory(const DynBlob *object, const char *key, DynStr *why) {
    char name[32];
    snprintf(name, sizeof(name), "dynoc-%.16s", key);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC);
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

static void *open_file(const DynBuildEnv *env, const DynBlob *object, DynStr *why) {
    DynStr path = {0};
    void *handle = NULL;
    if (dyn_tempdir_make(env, &path, why) == 0) {
        uint32_t folder = path.n;
        dyn_str_puts(&path, "/kernels.so");
        int fd = path.failed ? -1 : open(path.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        bool written = fd >= 0 && dyn_blob_write(fd, object->at, object->n) == 0;
        if (fd >= 0)
            written = close(fd) == 0 && written;
        handle = written ? dlopen(path.at, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (handle == NULL) {
            const char *error = written ? dlerror() : NULL;
            dyn_str_puts(why, error != NULL ? error : strerror(errno));
        }
        path.at[folder] = 0;
        dyn_tempdir_remove(path.at);
    }
    dyn_str_free(&path);
    return handle;
}

const DynNativeTable *dyn_load_object(const DynBuildEnv *env, const DynBlob *object, const char *key, DynStr *why) {
    pthread_mutex_lock(&loading);
    void *handle = open_memory(object, key, why);
    if (handle == NULL)
        handle = open_file(env, object, why);
    const DynNativeTable *table = handle == NULL ? NULL : dlsym(handle, DYN_NATIVE_SYMBOL);
    if (handle != NULL && (table == NULL || table->abi != DYN_NATIVE_ABI || table->count < 0)) {
        dyn_str_printf(why, "it has no table %s of version %d", DYN_NATIVE_SYMBOL, DYN_NATIVE_ABI);
        dlclose(handle);
        table = NULL;
    }
    pthread_mutex_unlock(&loading);
    return table;
}
