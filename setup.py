"""The extension module; everything else about the package is in setup.cfg.

DYNOC_BUILD_DEBUG=1 turns the verifiers on (-DDYN_DEBUG) and optimisation down; DYNOC_BUILD_SANITIZE=address, =undefined or =thread
builds with that sanitizer. Objects whose source and headers did not change are kept (the compiler writes beside each object which
files it has read), the others are compiled side by side.

The built-in tier goes beside the extension: one shared object for each instruction set, of a text that the extension writes when
it is there (src/codegen/run/builtin_rows.c). Where one can't be compiled the package works without it.
"""

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLAGS = (
    "-std=c11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type".split()
)
debug = os.environ.get("DYNOC_BUILD_DEBUG", "0") not in ("", "0")
sanitizer = os.environ.get("DYNOC_BUILD_SANITIZE", "")
flags = FLAGS + ["-MMD"] + (["-O1", "-g", "-DDYN_DEBUG"] if debug else ["-O2"])
link = []
if sanitizer:
    flags += ["-g", f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    link += [f"-fsanitize={sanitizer}"]


SOURCE_OF_TIER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("dynoc._dynoc", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
text, levels = module._builtin_source()
for name, flags in levels:
    print(name, flags)
print()
print(text)
"""


def is_current(kept):
    """Is the object newer than this file and than everything that the compiler read when it made it?"""
    listed = os.path.splitext(kept)[0] + ".d"
    if not (os.path.exists(kept) and os.path.exists(listed)):
        return False
    with open(listed) as file:
        read = file.read().replace("\\\n", " ").partition(":")[2].split()
    made = os.path.getmtime(kept)
    return all(os.path.exists(path) and os.path.getmtime(path) < made for path in (*read, "setup.py"))


class Build(build_ext):
    def build_tier(self):
        extension = self.get_ext_fullpath("dynoc._dynoc")
        compiler = list(itertools.takewhile(lambda word: not word.startswith("-"), self.compiler.compiler))  # CC="ccache gcc" is two
        env = dict(os.environ)
        if sanitizer:
            name = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}.get(sanitizer, "")
            path = subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
            env.update(LD_PRELOAD=path.stdout.strip(), ASAN_OPTIONS="detect_leaks=0")
        command = [sys.executable, "-c", SOURCE_OF_TIER, os.path.abspath(extension)]
        written = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
        head, text = written.split("\n\n", 1)
        folder = os.path.join("build", "builtin")
        os.makedirs(folder, exist_ok=True)

        def compile_level(level):
            name, *words = level.split()
            words += ["-x", "c", "-", "-lm", "-o"]
            key = hashlib.sha256("\0".join([*compiler, *words, text]).encode()).hexdigest()[:16]
            kept = os.path.join(folder, f"{name}-{key}.so")
            if not os.path.exists(kept):
                fresh = f"{kept}.{os.getpid()}"
                done = subprocess.run([*compiler, *words, fresh], input=text, capture_output=True, text=True)
                if done.returncode != 0:
                    self.warn(f"no built-in tier for {name}: {done.stderr[:2000]}")
                    return
                os.replace(fresh, kept)
            shutil.copyfile(kept, os.path.join(os.path.dirname(extension), f"_builtin-{name}.so"))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_level, head.splitlines()))

    def build_extensions(self):
        compile_some = self.compiler.compile

        def compile_one(source, output_dir, **how):
            (kept,) = self.compiler.object_filenames([source], output_dir=output_dir)
            if is_current(kept):
                return kept
            return compile_some([source], output_dir=output_dir, **how)[0]

        def compile_all(sources, output_dir=None, **how):
            with ThreadPoolExecutor(self.parallel or os.cpu_count()) as pool:
                return list(pool.map(lambda source: compile_one(source, output_dir, **how), sources))

        self.compiler.compile = compile_all
        self.force = True  # distutils looks at the sources alone; whether an object is still good is decided above
        super().build_extensions()
        self.build_tier()


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "dynoc._dynoc",
            sources=sorted(glob("src/**/*.c", recursive=True)),
            include_dirs=["src", numpy.get_include()],
            extra_compile_args=flags,
            extra_link_args=link,
            libraries=["dl", "m", "pthread"],
        )
    ],
)
