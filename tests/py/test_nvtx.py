"""Under PyTorch's emit_nvtx, calls and kernels are NVTX ranges, which Nsight Systems shows. Needs PyTorch for CUDA and a device.

A library of this test's own is what NVTX hands the ranges to, as it would to nsys."""

import shutil
import subprocess

import pytest
from process import run_python

torch = pytest.importorskip("torch")
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
]
# What NVTX 3 calls when it is first used: https://github.com/NVIDIA/NVTX, nvtxDetail/nvtxTypes.h. 9: nvtxRangePushA.
LISTENER = r"""
#include <stddef.h>
#include <stdio.h>
typedef struct Callbacks {
    size_t size;
    int (*table)(int module, void ****functions, unsigned *n);
} Callbacks;
static int push(const char *name) { return fprintf(stderr, "range %s\n", name), 0; }
int InitializeInjectionNvtx2(const void *(*get)(unsigned)) {
    const Callbacks *callbacks = get(1);
    void ***functions;
    unsigned n;
    if (callbacks == NULL || !callbacks->table(1, &functions, &n) || n < 10) {
        return 0;
    }
    *functions[9] = (void *)push;
    return 1;
}
"""
PROGRAM = """
import torch, dynoc
device = {device!r}
x = torch.ones(1000, device=device)
@dynoc.optimize(wait=True)
def wave(x):
    return (x.sin() * 2 + 1).sum()
with torch.no_grad():
    wave(x), wave(x)
    with torch.autograd.profiler.emit_nvtx():
        wave(x)
    wave(x)
"""


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_calls_and_kernels_are_ranges(tmp_path, device):
    (tmp_path / "listener.c").write_text(LISTENER)
    library = tmp_path / "listener.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, tmp_path / "listener.c"], check=True)
    code, _, said = run_python(["-c", PROGRAM.format(device=device)], NVTX_INJECTION64_PATH=library)
    assert code == 0, said
    ranges = [line.removeprefix("range ").partition(",")[0] for line in said.splitlines() if line.startswith("range ")]
    assert ranges.count("dynoc: wave") == 1
    assert [name for name in ranges if name.startswith("dynoc kernel: ") and "sin" in name], ranges
