"""The extension module; everything else about the package is in setup.cfg.

DYNOC_BUILD_DEBUG=1 turns the verifiers on (-DDYN_DEBUG) and optimisation down; DYNOC_BUILD_SANITIZE=address, =undefined or =thread
builds with that sanitizer. Objects whose source and headers did not change are kept (the compiler writes beside each object which
files it has read), the others are compiled side by side.

The built-in tier goes beside the extension: a shared object for this machine's instruction set, of a text that the extension writes
when it is there (src/codegen/run/builtin_rows.c); what is for other machines too has one for each instruction set, which takes
minutes (DYNOC_BUILD_PORTABLE=1; cibuildwheel's wheels). Where one can't be compiled the package works without it.

An interpreter that the extension isn't made for (src/dynoc/_python.py) gets the package without it.
"""

import hashlib
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from glob import glob

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NEEDED = ("setup.cfg", "README.md", "LICENSE", "docs/reasons", "src/dynoc/__init__.py", "src/dynoc/settings.def", "src/base/base.h")
FLAGS = (
    "-std=c11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type".split()
)
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
MANY = 16  # sources, from which on it pays to compile the headers that they share
debug = os.environ.get("DYNOC_BUILD_DEBUG", "0") not in ("", "0")
portable = any(os.environ.get(name, "0") not in ("", "0") for name in ("DYNOC_BUILD_PORTABLE", "CIBUILDWHEEL"))
sanitizer = os.environ.get("DYNOC_BUILD_SANITIZE", "")
asked = os.environ.get("CFLAGS", "").split()
flags = [*FLAGS, "-MMD"]
if debug:
    flags += ["-O1", "-g", "-DDYN_DEBUG"]
else:  # CPython's own flags ask for debug information, which takes a tenth of the time
    flags += ["-O2"] if "-g" in asked else ["-O2", "-g0"]
# Functions of CPython's are looked up when the extension is loaded, not in the first call of a program, one by one.
link = ["-Wl,-z,now"] if sys.platform.startswith("linux") else []
if sanitizer:
    flags += ["-g", f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    link += [f"-fsanitize={sanitizer}"]


def tell(text):
    """Say what is being done, on the terminal too where somebody (pip) keeps what a build writes to itself."""
    line = f"dynoc: {text}"
    print(line, file=sys.stderr, flush=True)
    if not sys.stderr.isatty():
        try:
            with open("/dev/tty", "w") as terminal:
                print(f"\n  {line}", end="", file=terminal)
        except OSError:  # there is none
            return


class Progress:
    """Tells how far something is that may take minutes: at its start, and every few seconds from then on.

    Parameters
    ----------
    tell : callable
        Gets a line of text.
    what : str
    n : int
        How many parts it has.
    """

    PAUSE = 10.0

    def __init__(self, tell, what, n):
        self.tell, self.what, self.n, self.done, self.told = tell, what, n, 0, time.monotonic()
        if n > 0:
            tell(f"{what}: {n} files, {JOBS} at a time")

    def count(self):
        self.done += 1
        if time.monotonic() - self.told > self.PAUSE:
            self.told = time.monotonic()
            self.tell(f"{self.what}: {self.done} of {self.n}")


SOURCE_OF_TIER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("dynoc._dynoc", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
text, levels = module._builtin_source()
for name, flags in levels:
    if "--portable" in sys.argv or name == module.build_info()["isa"]:
        print(name, flags)
print()
print(text)
"""


PARTS_OF_TIER = 3
ONLY_LINKER = ("-shared", "-nostdlib", "-s")


def parts_of_tier(text):
    """The text as several, which can be compiled side by side and linked: each with some of the functions, the last with the table."""
    hidden = '__attribute__((visibility("hidden"))) void'
    before, *functions = re.split(r"^static void (?=\w+_\d+\w*\(const \w+ \*args\))", text, flags=re.MULTILINE)
    at = functions[-1].index("__attribute__((visibility(\"default\")))")
    functions[-1], table = functions[-1][:at], functions[-1][at:]
    share = -(-len(functions) // PARTS_OF_TIER)
    parts = ["".join([before, *(f"{hidden} {text}" for text in functions[i : i + share])]) for i in range(0, len(functions), share)]
    heads = [f"{hidden} {text.partition(' {')[0]};\n" for text in functions]
    return [*parts, "".join([before, *heads, table])]


def is_current(kept, listed):
    """Is the object newer than this file and than everything that the compiler read when it made it, as listed in that file?"""
    if not (os.path.exists(kept) and os.path.exists(listed)):
        return False
    with open(listed) as file:
        read = file.read().replace("\\\n", " ").partition(":")[2].split()
    made = os.path.getmtime(kept)
    return all(os.path.exists(path) and os.path.getmtime(path) < made for path in (*read, "setup.py"))


def takes_headers(source):
    """May the headers that most sources share be included in front of this one? Not where it says first what they are to declare."""
    with open(source) as file:
        text = file.read()
    return "#define" not in text.partition("#include")[0] and "cpy_internal.h" not in text


class Build(build_ext):
    def tell(self, text):
        if self.distribution.verbose:
            tell(text)

    def build_tier(self):
        extension = self.get_ext_fullpath("dynoc._dynoc")
        compiler = list(itertools.takewhile(lambda word: not word.startswith("-"), self.compiler.compiler))  # CC="ccache gcc" is two
        env = dict(os.environ)
        if sanitizer:
            name = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}.get(sanitizer, "")
            path = subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
            env.update(LD_PRELOAD=path.stdout.strip(), ASAN_OPTIONS="detect_leaks=0")
        command = [sys.executable, "-c", SOURCE_OF_TIER, os.path.abspath(extension), *["--portable"] * portable]
        written = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        head, text = written.split("\n\n", 1)
        folder = os.path.join("build", "builtin")
        os.makedirs(folder, exist_ok=True)
        made_by = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout  # roots share the folder
        kept = {}  # the flags of each instruction set whose object is wanted, and where it is kept for the next time
        for level in head.splitlines():
            name, *words = level.split()
            key = hashlib.sha256("\0".join([*compiler, made_by, *words, text]).encode()).hexdigest()[:16]
            kept[name] = words, os.path.join(folder, f"{name}-{key}.so")
        stale = {name: row for name, row in kept.items() if not os.path.exists(row[1])}
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            self.compile_tier(compiler, stale, parts_of_tier(text), scratch)
        for name, (_, path) in kept.items():
            if os.path.exists(path):
                shutil.copyfile(path, os.path.join(os.path.dirname(extension), f"_builtin-{name}.so"))

    def compile_tier(self, compiler, levels, parts, scratch):
        """Compile every part for every instruction set side by side; then put the parts of each together."""
        jobs = [(name, words, i) for name, (words, _) in levels.items() for i in range(len(parts))]
        progress = Progress(self.tell, "compiling loops that serve until native code is ready", len(jobs))

        def compile_part(job):
            name, words, i = job
            words = [word for word in words if word not in ONLY_LINKER and not word.startswith("-Wl,")]
            command = [*compiler, *words, "-c", "-x", "c", "-", "-o", os.path.join(scratch, f"{name}-{i}.o")]
            done = subprocess.run(command, input=parts[i], capture_output=True, text=True)
            progress.count()
            return done.stderr if done.returncode else ""

        with ThreadPoolExecutor(self.parallel or JOBS) as pool:
            said = list(pool.map(compile_part, jobs))
        for name, (words, path) in levels.items():
            trouble = next((text for (level, *_), text in zip(jobs, said) if level == name and text), "")
            if not trouble:
                objects = [os.path.join(scratch, f"{name}-{i}.o") for i in range(len(parts))]
                fresh = os.path.join(scratch, f"{name}.so")
                # every part defines the vector functions that it calls, by names that the ABI gives and can't be static
                done = subprocess.run([*compiler, *words, "-Wl,-z,muldefs", *objects, "-lm", "-o", fresh], capture_output=True, text=True)
                trouble = done.stderr if done.returncode else ""
            if trouble:
                self.warn(f"no built-in tier for {name}: {trouble[:2000]}")
            else:
                os.replace(fresh, path)

    def build_extensions(self):
        import numpy

        for extension in self.extensions:
            extension.include_dirs.append(numpy.get_include())
        compile_some = self.compiler.compile

        def compile_headers(output_dir, **how):
            """Compile Python's and NumPy's headers once, for GCC: options by which a source takes them from there. ccache would keep no
            such object."""
            version = subprocess.run([*self.compiler.compiler_so[:1], "--version"], capture_output=True, text=True).stdout
            if "Free Software Foundation, Inc." not in version:
                return []
            path = os.path.join(output_dir, "headers")
            compiled = path + ".h.gch"
            if not is_current(compiled, path + ".d"):
                os.makedirs(output_dir, exist_ok=True)
                for suffix in (".h", ".c"):
                    with open(path + suffix, "w") as file:
                        file.write('#include "base/arrays.h"\n')
                options = ["-x", "c-header", "-MF", path + ".d"]
                (made,) = compile_some([path + ".c"], output_dir=output_dir, extra_preargs=options, **how)
                os.replace(made, compiled)
            return ["-include", path + ".h", "-fpch-deps"]

        def compile_all(sources, output_dir=None, **how):
            kept = self.compiler.object_filenames(sources, output_dir=output_dir)
            stale = [source for source, path in zip(sources, kept) if not is_current(path, os.path.splitext(path)[0] + ".d")]
            progress = Progress(self.tell, "compiling the extension", len(stale))

            headers = compile_headers(output_dir, **how) if len(stale) > MANY else []

            def compile_one(source):
                began = time.time()  # what is edited meanwhile is newer than the object
                (made,) = compile_some([source], output_dir=output_dir, extra_preargs=headers if takes_headers(source) else [], **how)
                os.utime(made, (began, began))
                progress.count()

            with ThreadPoolExecutor(self.parallel or JOBS) as pool:
                list(pool.map(compile_one, stale))
            return kept

        self.compiler.compile = compile_all
        self.force = True  # distutils looks at the sources alone; whether an object is still good is decided above
        super().build_extensions()
        self.build_tier()


class BuildPython(build_py):
    """With the pages about reasons, which messages name: `python -m dynoc reason CODE` shows them."""

    def run(self):
        super().run()
        folder = os.path.join(self.build_lib, "dynoc", "reasons")
        os.makedirs(folder, exist_ok=True)
        for page in glob("docs/reasons/*.md"):
            shutil.copyfile(page, os.path.join(folder, os.path.basename(page)))


class OfOneInterpreter(Distribution):
    """A package without the extension is no package for the interpreters that are to have it."""

    def has_ext_modules(self):
        return True


EXTENSION = Extension(
    "dynoc._dynoc",
    sources=sorted(glob("src/**/*.c", recursive=True)),
    include_dirs=["src"],
    extra_compile_args=flags,
    extra_link_args=link,
    libraries=["dl", "m", "pthread"],
)


def main():
    missing = [path for path in NEEDED if not os.path.exists(path)]
    if missing:
        sys.exit(f"dynoc: these sources are not complete, {', '.join(missing)} is missing. Take the whole repository or the sdist.")
    python = runpy.run_path(os.path.join("src", "dynoc", "_python.py"))
    known = python["is_known"]()
    if not known:
        tell(f"functions run as plain Python on {python['description']()}: {python['ADVICE']}")
    setup(cmdclass={"build_ext": Build, "build_py": BuildPython}, distclass=OfOneInterpreter, ext_modules=[EXTENSION] if known else [])


if __name__ == "__main__":
    main()
