"""Memory for tensors where PyTorch's C interface isn't there, or makes something else: a library in front of it says so."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

WHAT = ("none", "swaps", "other_dtype", "fails", "fails_later")
LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef int32_t (*Make)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **);
static Make own;
static int32_t calls;
static int32_t make(int64_t n, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device, int32_t at,
                    void **to) {
    const char *what = getenv("WHAT");
    if (strcmp(what, "fails") == 0 || (strcmp(what, "fails_later") == 0 && calls++ > 1)) {
        return 1;
    }
    if (strcmp(what, "swaps") == 0) {
        return own(n, strides, sizes, dtype, device, at, to);
    }
    return own(n, sizes, strides, strcmp(what, "other_dtype") == 0 ? dtype + 1 : dtype, device, at, to);
}
void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    if (next == NULL) {
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    }
    if (next == NULL) {
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    if (strcmp(name, "aoti_torch_empty_strided") != 0) {
        return next(handle, name);
    }
    own = (Make)next(handle, name);
    return strcmp(getenv("WHAT"), "none") == 0 ? NULL : (void *)make;
}
"""
PROGRAM = textwrap.dedent("""
    import logging
    import torch
    import dynoc
    logging.basicConfig(format="%(message)s")
    dynoc.set_logs(perf=True)
    fast = dynoc.optimize(lambda x: (torch.exp(x) * 2 + x).t(), wait=True)
    for shape in ((3, 4), (3, 4), (2, 5)):
        x = torch.randn(*shape)
        y, z = fast(x), (torch.exp(x) * 2 + x).t()
        assert torch.allclose(y, z) and y.stride() == z.stride() and y.dtype is z.dtype
    assert fast.entries[0].hits == 2
    print(dict(dynoc.counters.get("tensors", {})))
""")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux" or os.environ.get("DYNOC_BUILD_SANITIZE"):
        pytest.skip("a library in front of others can't be built")
    folder = tmp_path_factory.mktemp("interface")
    (folder / "front.c").write_text(LIBRARY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "front.so", folder / "front.c", "-ldl"], check=True)
    return folder / "front.so"


@pytest.mark.parametrize("what", WHAT)
def test_tensors_are_made_by_the_python_function_then(library, what):
    env = os.environ | {"LD_PRELOAD": str(library), "WHAT": what}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    counted = eval(ran.stdout.splitlines()[-1])
    said = [line for line in ran.stderr.splitlines() if line.startswith("TORCH_INTERFACE")]
    assert counted.get("TORCH_INTERFACE", 0) >= (1 if what == "fails_later" else 2)
    if what == "none":
        assert said == ["TORCH_INTERFACE: there is no aoti_torch_empty_strided: tensors are made by torch.empty_strided"]
    elif what != "fails_later":
        made = "aoti_torch_empty_strided makes something else"
        assert said == [f"TORCH_INTERFACE: {made}: tensors are made by torch.empty_strided"]


def test_nothing_is_counted_where_it_is_there():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "{}" and "TORCH_INTERFACE" not in ran.stderr
