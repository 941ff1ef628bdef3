/* build.h: what the files between C source text and loaded code share: build.c (queue and thread), compiler.c, process.c,
 * diskcache.c, load.c, tempdir.c, isa.c, par.c, doctor.c. Nobody else includes it.
 *
 * All of it runs without the GIL unless a comment says so. Memory is PyMem_Raw*. */
#ifndef DYN_BUILD_H
#define DYN_BUILD_H
#include "base/log.h"
#include "codegen/native.h"
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include <stdatomic.h>
#include <sys/types.h>

/* What a build takes from configuration and environment, copied with the GIL held when the build is asked for: the thread must
 * not read environ while Python code may change it. */
typedef struct DynBuildEnv {
    const char *compiler, *cflags, *cache_dir, *objects_dir; /* texts of dyn_config: they live as long as the process */
    bool fast_math;
    int64_t timeout_s;
    char **vars; /* "NAME=value", NULL at the end */
} DynBuildEnv;
DYN_HIDDEN DynBuildEnv *dyn_compiler_env_new(const DynConfig *config); /* with the GIL; NULL: memory */
DYN_HIDDEN void dyn_compiler_env_free(DynBuildEnv *env);
DYN_HIDDEN const char *dyn_compiler_env_get(const DynBuildEnv *env, const char *name); /* NULL where unset or empty */

/* A shared object in memory. */
typedef struct DynBlob {
    unsigned char *at;
    size_t n;
} DynBlob;
DYN_HIDDEN void dyn_blob_free(DynBlob *b);
DYN_HIDDEN int dyn_blob_read(int fd, size_t limit, DynBlob *out);  /* the whole regular file; -1: not regular, too long, error */
DYN_HIDDEN int dyn_blob_write(int fd, const void *data, size_t n); /* all of it; -1 with errno */

/* progress.c: what a terminal shows of a wait. Set to zero when the wait begins; `end` takes the line away. */
typedef struct DynProgress {
    int64_t since, seconds;
    bool terminal, shown;
} DynProgress;
DYN_HIDDEN void dyn_progress_show(DynProgress *p, int jobs);
DYN_HIDDEN void dyn_progress_end(DynProgress *p);

/* process.c: run a program. */
typedef enum DynProcessEnd { DYN_PROCESS_OK, DYN_PROCESS_FAILED, DYN_PROCESS_HUNG } DynProcessEnd;
/* stdin is empty; stdout and stderr go to `output` (64 KiB of them). The program is the leader of its own process group, whose id
 * stands in *group while it runs (NULL: not wanted); the whole group is killed after timeout_s or when `stop` becomes true. */
DYN_HIDDEN DynProcessEnd dyn_process_run(char *const argv[], char *const envp[], int64_t timeout_s, _Atomic(int) *group,
                                         const atomic_bool *stop, DynStr *output);

/* tempdir.c: a private folder for one compilation. */
DYN_HIDDEN int dyn_tempdir_make(const DynBuildEnv *env, DynStr *path, DynStr *why);
DYN_HIDDEN void dyn_tempdir_remove(const char *path); /* with the files in it */

/* compiler.c: find the compiler, its command line, run it. */
typedef struct DynCompiler {
    DynStr words; /* the program's full path, then the arguments that the setting gives it: NUL after each */
    uint32_t nwords;
    DynStr identity; /* real path, size and modification time: tells one compiler from the next without running it */
} DynCompiler;
DYN_HIDDEN int dyn_compiler_find(const DynBuildEnv *env, DynCompiler *out, DynStr *why); /* -1: none */
DYN_HIDDEN void dyn_compiler_free(DynCompiler *c);
/* All flags, separated by blanks. Flags of the user's that would change arithmetic for the whole process are left out and named
 * in refused (may be NULL). */
DYN_HIDDEN void dyn_compiler_flags(const DynBuildEnv *env, DynStr *out, DynStr *refused);
DYN_HIDDEN void dyn_compiler_isa_flags(const DynIsa *isa, DynStr *out); /* without the user's */
/* Source to shared object. On failure the reason, and in detail the command and what the compiler wrote. */
DYN_HIDDEN DynReason dyn_compiler_run(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source,
                                      _Atomic(int) *group, const atomic_bool *stop, DynBlob *object, DynStr *detail);

/* What makes an object of text: one for each language. */
typedef struct DynToolchain {
    int (*find)(const DynBuildEnv *env, DynCompiler *out, DynStr *why);  /* -1: there is none */
    void (*flags)(const DynBuildEnv *env, DynStr *out, DynStr *refused); /* refused: may be NULL */
    DynReason (*run)(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source, _Atomic(int) *group,
                     const atomic_bool *stop, DynBlob *object, DynStr *detail); /* Source to object. */
    DynLoaded *(*load)(const DynBuildEnv *env, const DynBlob *object, const char *key, DynReason *failure, DynStr *why);
} DynToolchain;

/* diskcache.c: objects by key, in the user's own folder. */
DYN_HIDDEN void dyn_diskcache_key(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source,
                                  char key[65]);
DYN_HIDDEN void dyn_diskcache_path(const DynBuildEnv *env, DynStr *path); /* empty where there is no place for one */
DYN_HIDDEN int dyn_diskcache_open(const DynBuildEnv *env, DynStr *why);   /* the folder, made if need be; -1: why */
typedef enum DynCacheFind { DYN_CACHE_MISS, DYN_CACHE_HIT, DYN_CACHE_DAMAGED /* a miss, the file was removed */ } DynCacheFind;
DYN_HIDDEN DynCacheFind dyn_diskcache_get(int folder, const char *key, DynBlob *object);
DYN_HIDDEN int dyn_diskcache_put(int folder, const char *key, const DynBlob *object, DynStr *why);
DYN_HIDDEN int dyn_diskcache_trim(int folder, int64_t limit); /* removes the longest unused; how many files went */

/* load.c: a checked object to its table of kernels, for whoever has a use of it (one comes with what find and object give). Find
 * and object are for the build thread alone. NULL: not loaded yet; the failure, and why. */
DYN_HIDDEN DynLoaded *dyn_load_find(const char *key);
DYN_HIDDEN DynLoaded *dyn_load_object(const DynBuildEnv *env, const DynBlob *object, const char *key, DynReason *failure,
                                      DynStr *why);
/* An object that isn't this machine's: a table whose kernels have no functions, and `device`, which has them, for `unload`. */
DYN_HIDDEN DynLoaded *dyn_load_device(const char *key, size_t bytes, const DynNativeTable *table, void *device,
                                      void (*unload)(void *device));
DYN_HIDDEN int dyn_load_limit(int most); /* test: how many may be loaded from now on; how many are */
/* An ELF shared object for this machine, with all its segments in it, or an object for a device. */
DYN_HIDDEN bool dyn_load_is_whole(const DynBlob *object);
DYN_HIDDEN void dyn_load_forked(void); /* in the child */

/* build.c: for doctor.c. */
typedef struct DynBuildResult {
    bool native, cached; /* cached: from disk, no compiler started */
    DynReason why;       /* of a failure */
    DynStr detail;
    int64_t start;  /* dyn_now_ns when the job was taken up */
    double seconds; /* from taking the job up to its end, without waiting in the queue */
} DynBuildResult;
/* With the GIL (released meanwhile): build `source` through the queue as if for an artifact, and wait. -1: memory, no thread. */
DYN_HIDDEN int dyn_build_source(const char *source, DynBuildResult *out);
DYN_HIDDEN bool dyn_build_is_started(void);
DYN_HIDDEN int dyn_build_init(void); /* fork handlers; starts nothing. -1 with an exception set */
#endif
