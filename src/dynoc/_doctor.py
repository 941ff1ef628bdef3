"""`python -m dynoc doctor`: what dynoc needs and can use, found or not, and what to do about it."""

import ctypes
import functools
import importlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata

import dynoc
from dynoc import _dynoc, _python

MIN_FREE = 100 << 20
PROGRAM = """#include <math.h>
double dynoc_doctor(double x) { return sqrt(x); }
"""
OK, MISSING, OPTIONAL, UNUSABLE = "ok", "MISSING", "not found", "unusable"
CUDA_ADVICE = {  # by the number of the error that cuInit gives
    34: "this is the toolkit's stub, which only links: take its folder out of LD_LIBRARY_PATH",
    100: "no GPU is to be seen: look at CUDA_VISIBLE_DEVICES, and at what the container was given (--gpus all)",
    803: "library and kernel module are of two versions: reboot, or install the driver again",
    804: "the GPU has no forward compatibility: install a newer driver, or take the compat library out of LD_LIBRARY_PATH",
    999: "often /dev/nvidia-uvm is missing: run nvidia-modprobe -u -c=0",
}


def python():
    if _python.is_known():
        return OK, _python.description(), ""
    return MISSING, _python.description(), f"functions run as plain Python here: {_python.ADVICE}"


def try_compiler(command):
    """What goes wrong when `command` builds a shared object; None when nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = os.path.join(folder, "doctor.c"), os.path.join(folder, "doctor.so")
        with open(source, "w") as file:
            file.write(PROGRAM)
        try:
            words = [command, "-O2", "-shared", "-fPIC", "-fopenmp-simd", source, "-o", output, "-lm"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=30)
            if done.returncode:
                return f"it fails: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
            ctypes.CDLL(output)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return None


def compiler():
    info = _dynoc.build_info()
    command = info["compiler"]
    trouble = info["compiler_problem"] if command is None else try_compiler(command)
    if trouble:
        wanted = command or dynoc.config.compiler or "cc, gcc, clang"
        advice = "install gcc or clang, or set DYNOC_COMPILER; until then functions run in the built-in tier"
        return MISSING, f"{wanted}: {trouble}", advice
    return OK, f"{command}: {info['compiler_version']}", ""


def instruction_sets():
    info = _dynoc.build_info()
    return OK, f"{info['isa']}, {info['threads']} threads", ""


def builtin_tier():
    if _dynoc.build_info()["builtin"]:
        return OK, "serves until native code is ready", ""
    advice = "reinstall on this machine, with a C compiler; functions run as plain Python until native code is ready"
    return OPTIONAL, "the package's own loops", advice


def openmp():
    found = _dynoc.build_info()["openmp"]
    if found:
        return OK, found, ""
    return OPTIONAL, "libgomp", "kernels run in one thread: install gcc, or libgomp1"


def vector_math():
    try:
        ctypes.CDLL("libmvec.so.1")
    except OSError:
        return OPTIONAL, "libmvec", "sin, exp and the like run one element at a time: on x86-64, glibc 2.22 or later has it"
    return OK, f"libmvec, glibc {platform.libc_ver()[1]}", ""


@functools.cache
def cuda():
    """What dynoc finds of CUDA. Programs with PyTorch find the compiler beside PyTorch's libraries: these are loaded first."""
    pytorch()
    return _dynoc.cuda_info()


def cuda_driver():
    """The driver, and why it can't be used where it is there: asked without a context on a device."""
    info = cuda()
    version, count, oldest = info["version"], info["devices"], info["oldest"]
    if info["missing"]:
        return OPTIONAL, "libcuda.so.1", "only needed for arrays on a GPU"
    if info["error"]:
        return UNUSABLE, info["problem"], CUDA_ADVICE.get(info["error"], "what does nvidia-smi say?")
    found = f"libcuda.so.1 for CUDA {version // 1000}.{version % 1000 // 10}"
    if version and version < oldest:
        return UNUSABLE, found, f"install a driver for CUDA {oldest // 1000} or newer"
    if info["problem"]:
        return UNUSABLE, info["problem"], "install the driver again"
    if count == 0:
        return UNUSABLE, f"{found}: it has no device", CUDA_ADVICE[100]
    more = f" and {count - 1} more" if count > 1 else ""
    return OK, f"{found}: {info['name']}{more}", ""


def nvrtc():
    """CUDA's compiler."""
    info = cuda()
    if info["nvrtc"] is None:
        return OPTIONAL, "libnvrtc", f"only needed for arrays on a GPU. {info['nvrtc_problem']}"
    return OK, info["nvrtc"].partition(" driver ")[0], ""


def pytorch():
    """PyTorch, which is imported where it isn't one for CPUs alone."""
    row = package("torch", "only needed for tensors")()
    if row[0] == OK and "+cpu" not in row[1]:
        try:
            importlib.import_module("torch")
        except (ImportError, OSError) as error:
            return UNUSABLE, f"{row[1]}: {str(error).splitlines()[0]}", "what does python -c 'import torch' say?"
    return row


def package(names, advice, absent=OPTIONAL):
    """A package that is installed by the first of these names, in one word, that there is."""

    def look():
        for name in names.split():
            try:
                return OK, f"{name} {metadata.version(name)}", ""
            except metadata.PackageNotFoundError:
                continue
        return absent, names.split()[0], advice

    return look


def cache_folder():
    info = _dynoc.build_info()
    folder = info["cache_dir"]
    if not info["cache_usable"]:
        advice = "set DYNOC_CACHE_DIR to a folder that only you can write; until then nothing is kept between processes"
        return MISSING, f"{folder}: {info['cache_problem']}", advice
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE:
        return MISSING, f"{folder}: {free >> 20} MiB free", "make room on the disk"
    return OK, folder, ""


PACKAGES = {
    "NumPy": package("numpy", "pip install numpy", MISSING),
    "PyTorch": pytorch,
    "CuPy": package("cupy cupy-cuda13x cupy-cuda12x cupy-cuda11x cupy-rocm-7-0", "only needed for arrays on a GPU"),
}
CHECKS = {
    "Python": python,
    "compiler": compiler,
    "instruction sets": instruction_sets,
    "built-in tier": builtin_tier,
    "vector math": vector_math,
    "OpenMP": openmp,
    "CUDA driver": cuda_driver,
    "NVRTC": nvrtc,
    **PACKAGES,
    "cache folder": cache_folder,
}
CHECKS_WITHOUT_EXTENSION = {"Python": python, **PACKAGES}  # the others are about code that nobody makes then


def has_extension():
    """Does the extension start here? It doesn't where Python is unknown or there is no NumPy."""
    return _python.is_known() and importlib.util.find_spec("numpy") is not None


def main(words=()):
    """Print the table, or with ``--json`` the same for programs; 1 if something is missing that dynoc needs."""
    if list(words) not in ([], ["--json"]):
        print("python -m dynoc doctor [--json]", file=sys.stderr)
        return 2
    rows = {name: look() for name, look in (CHECKS if has_extension() else CHECKS_WITHOUT_EXTENSION).items()}
    if words:
        found = {name: {"state": state, "found": what, "advice": advice} for name, (state, what, advice) in rows.items()}
        print(json.dumps({"dynoc": dynoc.__version__, "checks": found}, indent=2))
    else:
        print(f"dynoc {dynoc.__version__}")
        for name, (state, what, advice) in rows.items():
            print(f"{name:<18}{state:<11}{what}{f'  ->  {advice}' if advice else ''}")
    return 1 if any(state == MISSING for state, _, _ in rows.values()) else 0
