"""The extension module; everything else about the package is in setup.cfg.

DYNOC_BUILD_DEBUG=1 turns the verifiers on (-DDYN_DEBUG) and optimisation down; DYNOC_BUILD_SANITIZE=address or =undefined
builds with that sanitizer. Objects whose source and headers did not change are kept, the others are compiled side by side.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from glob import glob

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOMS = ("base", "tracer", "codegen", "evalframe")
FLAGS = (
    "-std=c11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type".split()
)
debug = os.environ.get("DYNOC_BUILD_DEBUG", "0") not in ("", "0")
sanitizer = os.environ.get("DYNOC_BUILD_SANITIZE", "")
flags = FLAGS + (["-O1", "-g", "-DDYN_DEBUG"] if debug else ["-O2"])
link = []
if sanitizer:
    flags += ["-g", f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
    link += [f"-fsanitize={sanitizer}"]


class Build(build_ext):
    def build_extensions(self):
        compile_some = self.compiler.compile
        shared = [path for room in ROOMS for end in ("h", "def") for path in glob(f"src/{room}/*.{end}")]
        newest = max(os.path.getmtime(path) for path in (*shared, "setup.py"))

        def compile_one(source, output_dir, **how):
            (kept,) = self.compiler.object_filenames([source], output_dir=output_dir)
            if os.path.exists(kept) and os.path.getmtime(kept) > max(newest, os.path.getmtime(source)):
                return kept
            return compile_some([source], output_dir=output_dir, **how)[0]

        def compile_all(sources, output_dir=None, **how):
            with ThreadPoolExecutor(self.parallel or os.cpu_count()) as pool:
                return list(pool.map(lambda source: compile_one(source, output_dir, **how), sources))

        self.compiler.compile = compile_all
        self.force = True  # distutils looks at the sources alone; whether an object is still good is decided above
        super().build_extensions()


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "dynoc._dynoc",
            sources=sorted(path for room in ROOMS for path in glob(f"src/{room}/*.c")),
            include_dirs=["src", numpy.get_include()],
            extra_compile_args=flags,
            extra_link_args=link,
            libraries=["dl", "m", "pthread"],
        )
    ],
)
