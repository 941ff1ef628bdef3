/* compiler.c: finds the C compiler, makes its command line, and runs it: source text in, shared object out.
 *
 * Called by build.c in the build thread; doctor.c asks what was found. Nothing here is kept between builds: looking a compiler up
 * costs some stat calls.
 *
 * The command: source from a file in a private folder, no start files, no headers. -pipe lets compiler and assembler run side by
 * side, which is the largest saving there is beside short source (measured: 114 ms against 163 for three kernels; linking without
 * start files 100). */
#define _GNU_SOURCE 1
#include "codegen/build/build.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define OBJECT_LIMIT ((size_t)64 << 20)
/* Linked into two mappings, not five: each page of an object is memory of the process, and most objects are smaller than one. */
#define LINK_FLAGS "-Wl,-z,noseparate-code -Wl,-z,norelro -Wl,--build-id=none"
/* In place of -s, where perf and gdb are to find symbols and the way up the stack. */
#define SYMBOL_FLAGS " -fno-omit-frame-pointer -fasynchronous-unwind-tables"
/* Sinking moves the call of a function to the arm of a choice that it is for: a branch, and no vectors. */
#define COMMON_FLAGS                                                                                                      \
    "-std=gnu11 -O3 -w -pipe -fPIC -shared -nostdlib -fopenmp-simd -ffp-contract=off -fno-math-errno -fno-trapping-math " \
    "-fno-asynchronous-unwind-tables -fwrapv -fno-tree-sink " LINK_FLAGS
#define FAST_MATH_FLAGS "-fassociative-math -freciprocal-math -fno-signed-zeros" /* not -ffast-math: see refused_flags */

/* An object that is linked with one of these sets flush-to-zero for the whole process when it is loaded, or shortens x87
 * arithmetic. */
static const char *const refused_flags[] = {"-ffast-math", "-Ofast",          "-funsafe-math-optimizations",
                                            "-mdaz-ftz",   "-ffp-model=fast", "-ffp-model=aggressive",
                                            "-mpc32",      "-mpc64"};

/* ---- Configuration and environment. */

DynBuildEnv *dyn_compiler_env_new(const DynConfig *config) {
    size_t n = 0, bytes = 0;
    while (environ != NULL && environ[n] != NULL) {
        bytes += strlen(environ[n++]) + 1;
    }
    DynBuildEnv *env = PyMem_RawCalloc(1, sizeof(*env) + (n + 1) * sizeof(char *) + bytes);
    if (env == NULL) {
        return NULL;
    }
    env->compiler = config->compiler;
    env->cflags = config->cflags;
    env->cache_dir = config->cache_dir;
    env->objects_dir = config->objects_dir;
    env->fast_math = config->fast_math;
    env->timeout_s = config->compile_timeout;
    env->vars = (char **)(env + 1);
    char *at = (char *)(env->vars + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(environ[i]) + 1;
        env->vars[i] = memcpy(at, environ[i], length);
        at += length;
    }
    return env;
}

void dyn_compiler_env_free(DynBuildEnv *env) { PyMem_RawFree(env); }

const char *dyn_compiler_env_get(const DynBuildEnv *env, const char *name) {
    size_t n = strlen(name);
    for (char **v = env->vars; *v != NULL; v++) {
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=') {
            return (*v)[n + 1] != 0 ? *v + n + 1 : NULL;
        }
    }
    return NULL;
}

/* ---- Finding the compiler. */

/* The next word of *text, moved behind it; 0 at the end. */
static size_t next_word(const char **text, const char **word) {
    *text += strspn(*text, " \t\n");
    *word = *text;
    size_t n = strcspn(*text, " \t\n");
    *text += n;
    return n;
}

static bool is_program(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Full path of a program, as a shell would look for it. */
static bool find_program(const DynBuildEnv *env, const char *name, size_t n, DynStr *path) {
    path->n = 0;
    if (memchr(name, '/', n) != NULL) {
        dyn_str_printf(path, "%.*s", (int)n, name);
        return !path->failed && is_program(dyn_str_at(path));
    }
    const char *at = dyn_compiler_env_get(env, "PATH");
    while (at != NULL && !path->failed) {
        size_t length = strcspn(at, ":");
        path->n = 0;
        if (length > 0) { /* an empty part means the working directory: not for us */
            dyn_str_printf(path, "%.*s/%.*s", (int)length, at, (int)n, name);
            if (!path->failed && is_program(dyn_str_at(path))) {
                return true;
            }
        }
        at = at[length] == ':' ? at + length + 1 : NULL;
    }
    return false;
}

/* `setting` is a program with its first arguments, as in "ccache gcc". */
static bool take_setting(const DynBuildEnv *env, const char *setting, DynCompiler *out) {
    const char *word;
    size_t n = next_word(&setting, &word);
    DynStr path = {0};
    bool found = n > 0 && find_program(env, word, n, &path);
    for (const char *p = dyn_str_at(&path); found && n > 0; n = next_word(&setting, &word), p = NULL) {
        if (p != NULL) {
            dyn_str_puts(&out->words, p);
        } else {
            dyn_str_printf(&out->words, "%.*s", (int)n, word);
        }
        dyn_str_putc(&out->words, 0);
        out->nwords++;
    }
    dyn_str_free(&path);
    return found;
}

static void identify(DynCompiler *c) {
    char real[PATH_MAX];
    struct stat st = {0};
    const char *program = dyn_str_at(&c->words);
    if (realpath(program, real) == NULL || stat(real, &st) < 0) {
        dyn_str_puts(&c->identity, program);
    } else {
        dyn_str_printf(&c->identity, "%s %lld %lld.%09ld", real, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                       st.st_mtim.tv_nsec);
    }
}

int dyn_compiler_find(const DynBuildEnv *env, DynCompiler *out, DynStr *why) {
    const char *const usual[] = {dyn_compiler_env_get(env, "CC"), "cc", "gcc", "clang"};
    *out = (DynCompiler){0};
    bool found = false;
    if (env->compiler[0] != 0) { /* asked for: no other will do */
        found = take_setting(env, env->compiler, out);
    } else {
        for (size_t i = 0; i < DYN_COUNTOF(usual) && !found; i++) {
            found = usual[i] != NULL && take_setting(env, usual[i], out);
        }
    }
    if (found) {
        identify(out);
    }
    if (!found || out->words.failed || out->identity.failed) {
        dyn_compiler_free(out);
        if (env->compiler[0] != 0) {
            dyn_str_printf(why, "%s is not an executable program", env->compiler);
        } else {
            dyn_str_puts(why, "neither $CC nor cc, gcc or clang is on the PATH");
        }
        return -1;
    }
    return 0;
}

void dyn_compiler_free(DynCompiler *c) {
    dyn_str_free(&c->words);
    dyn_str_free(&c->identity);
    c->nwords = 0;
}

/* ---- The command line. */

static bool is_refused(const char *word, size_t n) {
    for (size_t i = 0; i < DYN_COUNTOF(refused_flags); i++) {
        if (strlen(refused_flags[i]) == n && memcmp(refused_flags[i], word, n) == 0) {
            return true;
        }
    }
    return false;
}

void dyn_compiler_isa_flags(const DynIsa *isa, DynStr *out) {
    dyn_str_printf(out, isa->flags[0] != 0 ? "%s %s" : "%s", COMMON_FLAGS, isa->flags);
}

void dyn_compiler_flags(const DynBuildEnv *env, DynStr *out, DynStr *refused) {
    const char *rest = env->cflags, *word;
    dyn_compiler_isa_flags(dyn_isa_get(), out);
    dyn_str_puts(out, env->objects_dir[0] != 0 ? SYMBOL_FLAGS : " -s");
    if (env->fast_math) {
        dyn_str_printf(out, " %s", FAST_MATH_FLAGS);
    }
    for (size_t n = next_word(&rest, &word); n > 0; n = next_word(&rest, &word)) {
        DynStr *to = is_refused(word, n) ? refused : out;
        if (to != NULL) {
            dyn_str_printf(to, to->n > 0 ? " %.*s" : "%.*s", (int)n, word);
        }
    }
}

/* Words in one block: a NULL-terminated vector for exec. Words of `blanks` are separated by blanks, those of c by NUL. */
static char **make_argv(const DynCompiler *c, const char *flags, const char *input, const char *output) {
    const char *const after[] = {"-x", "c", input, "-o", output, "-lm"};
    size_t room = c->words.n + strlen(flags) + 1, words = c->nwords + strlen(flags) / 2 + 1 + DYN_COUNTOF(after) + 1, n = 0;
    char **argv = PyMem_RawCalloc(1, words * sizeof(char *) + room);
    if (argv == NULL) {
        return NULL;
    }
    char *at = (char *)(argv + words);
    memcpy(at, c->words.at, c->words.n);
    for (uint32_t i = 0; i < c->nwords; i++) {
        argv[n++] = at;
        at += strlen(at) + 1;
    }
    const char *word;
    for (size_t length = next_word(&flags, &word); length > 0; length = next_word(&flags, &word)) {
        argv[n++] = memcpy(at, word, length);
        at += length + 1; /* the block is zeroed, and each word had a separator behind it */
    }
    for (size_t i = 0; i < DYN_COUNTOF(after); i++) {
        argv[n++] = (char *)after[i];
    }
    return argv;
}

/* The compiler's environment: ours, with temporary files in its folder and messages in English; without preloaded libraries,
 * which are meant for the program. */
static char **make_envp(const DynBuildEnv *env, char *tmpdir) {
    static const char *const dropped[] = {"TMPDIR=", "LC_ALL=", "LANGUAGE=", "LD_PRELOAD="};
    size_t n = 0, kept = 0;
    while (env->vars[n] != NULL) {
        n++;
    }
    char **envp = PyMem_RawCalloc(n + 3, sizeof(char *));
    for (size_t i = 0; envp != NULL && i < n; i++) {
        bool keep = true;
        for (size_t d = 0; d < DYN_COUNTOF(dropped); d++) {
            keep = keep && strncmp(env->vars[i], dropped[d], strlen(dropped[d])) != 0;
        }
        if (keep) {
            envp[kept++] = env->vars[i];
        }
    }
    if (envp != NULL) {
        envp[kept++] = tmpdir;
        envp[kept] = (char *)"LC_ALL=C";
    }
    return envp;
}

/* ---- Running it. */

static int write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    int done = dyn_blob_write(fd, text, strlen(text));
    return close(fd) < 0 ? -1 : done;
}

static DynReason read_object(const char *path, DynBlob *object, DynStr *detail) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool read = fd >= 0 && dyn_blob_read(fd, OBJECT_LIMIT, object) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (read && dyn_load_is_whole(object)) {
        return DYN_R_OK;
    }
    dyn_str_puts(detail,
                 read ? "what the compiler wrote is not a shared object for this machine\n" : "the compiler wrote no file\n");
    dyn_blob_free(object);
    return DYN_R_COMPILER_FAILED;
}

/* With everything prepared: argv is made from paths that live as long as this call. */
static DynReason run(const DynBuildEnv *env, char **argv, char **envp, const char *output, _Atomic(int) *group,
                     const atomic_bool *stop, DynBlob *object, DynStr *detail) {
    for (char **word = argv; *word != NULL; word++) {
        dyn_str_printf(detail, word == argv ? "%s" : " %s", *word);
    }
    dyn_str_putc(detail, '\n');
    switch (dyn_process_run(argv, envp, env->timeout_s, group, stop, detail)) {
    case DYN_PROCESS_OK: return read_object(output, object, detail);
    case DYN_PROCESS_HUNG: dyn_str_printf(detail, "killed after %lld s\n", (long long)env->timeout_s); return DYN_R_COMPILER_HUNG;
    default: return DYN_R_COMPILER_FAILED;
    }
}

DynReason dyn_compiler_run(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source,
                           _Atomic(int) *group, const atomic_bool *stop, DynBlob *object, DynStr *detail) {
    DynStr folder = {0}, input = {0}, output = {0}, tmpdir = {0};
    char **argv = NULL, **envp = NULL;
    DynReason why = DYN_R_NO_MEMORY;
    if (dyn_tempdir_make(env, &folder, detail) < 0) {
        dyn_str_free(&folder);
        return DYN_R_COMPILER_FAILED;
    }
    dyn_str_printf(&input, "%s/kernels.c", dyn_str_at(&folder));
    dyn_str_printf(&output, "%s/kernels.so", dyn_str_at(&folder));
    dyn_str_printf(&tmpdir, "TMPDIR=%s", dyn_str_at(&folder));
    if (!input.failed && !output.failed && !tmpdir.failed) {
        argv = make_argv(c, flags, input.at, output.at);
        envp = make_envp(env, tmpdir.at);
    }
    if (argv != NULL && envp != NULL) {
        if (write_file(input.at, source) == 0) {
            why = run(env, argv, envp, output.at, group, stop, object, detail);
        } else {
            dyn_str_printf(detail, "%s: %s\n", input.at, strerror(errno));
            why = DYN_R_COMPILER_FAILED;
        }
    }
    dyn_tempdir_remove(folder.at);
    PyMem_RawFree(argv);
    PyMem_RawFree(envp);
    dyn_str_free(&folder);
    dyn_str_free(&input);
    dyn_str_free(&output);
    dyn_str_free(&tmpdir);
    return why;
}

const DynToolchain dyn_toolchain_c = {
    .find = dyn_compiler_find, .flags = dyn_compiler_flags, .run = dyn_compiler_run, .load = dyn_load_object};
