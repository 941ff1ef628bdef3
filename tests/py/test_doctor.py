"""python -m dynoc doctor on machines that lack something, or have what can't be used: each made here for one process."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from process import program, run_python

DRIVER = """
static const char *text = "%(text)s";
int cuInit(unsigned flags) { return %(error)d; }
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_%(name)s"; return 0; }
int cuGetErrorString(int error, const char **said) { *said = text; return 0; }
int cuDriverGetVersion(int *version) { *version = %(version)d; return 0; }
int cuDeviceGetCount(int *n) { *n = %(devices)d; return 0; }
int cuDeviceGetName(char *name, int n, int device) {
    const char *found = "Some GPU";
    for (int i = 0; i < n && (name[i] = found[i]) != 0; i++) {}
    return 0;
}
#define OTHER(name) int name(void) { return 999; }
%(others)s
"""
OTHERS = "DeviceGet DeviceGetAttribute DevicePrimaryCtxRetain CtxGetCurrent CtxSetCurrent LibraryLoadData LibraryUnload "
OTHERS += "LibraryGetKernel KernelSetAttribute LaunchKernel MemsetD32Async StreamIsCapturing StreamGetCaptureInfo_v2 "
OTHERS += "GraphExecKernelNodeSetParams_v2 GraphLaunch"
OTHERS = "\n".join(f"OTHER(cu{name})" for name in OTHERS.split())
NVRTC = """
#define OTHER(name) int nvrtc##name(void) { return 1; }
OTHER(CreateProgram) OTHER(DestroyProgram) OTHER(CompileProgram) OTHER(GetProgramLogSize) OTHER(GetProgramLog)
OTHER(GetCUBINSize) OTHER(GetCUBIN)
const char *nvrtcGetErrorString(int error) { return "no"; }
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 1; return 0; }
"""
GOOD = {"error": 0, "name": "NONE", "text": "no error", "version": 13000, "devices": 1, "others": OTHERS}


def doctor(**environment):
    """(exit status, {check: (state, what was found, advice)})."""
    code, out, said = run_python(["-m", "dynoc", "doctor", "--json"], **environment)
    assert said == ""
    return code, {name: tuple(row.values()) for name, row in json.loads(out)["checks"].items()}


@pytest.fixture
def make(tmp_path):
    """Makes a library of C source."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")

    def library(text, path):
        source = tmp_path / "library.c"
        source.write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)

    return library


@pytest.fixture
def driver(tmp_path, make):
    """Makes a driver that does as it is told; the folder is a value of LD_LIBRARY_PATH."""

    def made(**told):
        make(DRIVER % {**GOOD, **told}, tmp_path / "libcuda.so.1")
        return tmp_path

    return made


def test_without_a_compiler(tmp_path):
    """Nothing but the interpreter is on the path."""
    code, found = doctor(PATH=tmp_path, DYNOC_COMPILER=None)
    state, what, advice = found["compiler"]
    assert code == 1 and state == "MISSING" and "cc, gcc, clang" in what and "install gcc or clang" in advice
    assert found["built-in tier"][0] == "ok" and found["NumPy"][0] == "ok"


def test_a_compiler_that_fails(tmp_path):
    code, found = doctor(DYNOC_COMPILER=program(tmp_path / "cc", "echo 'no licence' >&2\nexit 1"))
    assert code == 1 and found["compiler"][0] == "MISSING" and "no licence" in found["compiler"][1]


def test_without_pytorch_and_a_gpu(tmp_path):
    """Of the packages that are installed, those that dynoc and this test need: nothing is missing that dynoc needs."""
    for name in ("numpy", "dynoc"):
        module = __import__(name)
        (tmp_path / name).symlink_to(module.__path__[0])
    info = next(path for path in map(str, sys.path) if list(Path(path).glob("numpy-*.dist-info")))
    for path in Path(info).glob("numpy*"):
        if not (tmp_path / path.name).exists():
            (tmp_path / path.name).symlink_to(path)
    text = f"import sys; sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if 'site-packages' not in p)]; "
    text += "from dynoc import _doctor; sys.exit(_doctor.main(['--json']))"
    done = subprocess.run([sys.executable, "-S", "-c", text], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["checks"]
    assert found["PyTorch"] == {"state": "not found", "found": "torch", "advice": "only needed for tensors"}
    assert found["CuPy"]["state"] == "not found" and found["NumPy"]["state"] == "ok"
    assert done.returncode == 0 and done.stderr == ""


def test_cupys_wheel_has_another_name(tmp_path):
    info = tmp_path / "cupy_cuda12x-13.4.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 13.4.0\n")
    text = f"import sys; sys.path.append({str(tmp_path)!r}); from dynoc import _doctor; sys.exit(_doctor.main(['--json']))"
    code, out, _ = run_python(["-c", text])
    assert code == 0 and json.loads(out)["checks"]["CuPy"] == {"state": "ok", "found": "cupy-cuda12x 13.4.0", "advice": ""}


def test_a_driver_that_works(driver):
    assert doctor(LD_LIBRARY_PATH=driver(devices=3))[1]["CUDA driver"] == (
        "ok",
        "libcuda.so.1 for CUDA 13.0: Some GPU and 2 more",
        "",
    )


@pytest.mark.parametrize(
    "told, what, advice",
    [
        ({"error": 803, "name": "SYSTEM_DRIVER_MISMATCH", "text": "versions differ"}, "MISMATCH: versions differ", "reboot"),
        ({"error": 100, "name": "NO_DEVICE", "text": "none"}, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ({"error": 304, "name": "OPERATING_SYSTEM", "text": "no"}, "CUDA_ERROR_OPERATING_SYSTEM", "nvidia-smi"),
        ({"version": 11040}, "for CUDA 11.4", "CUDA 12 or newer"),
        ({"others": ""}, "lacks functions of CUDA 12", "install the driver again"),
        ({"devices": 0}, "it has no device", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_why_a_driver_cannot_be_used(driver, told, what, advice):
    code, found = doctor(LD_LIBRARY_PATH=driver(**told))
    row = found["CUDA driver"]
    assert code == 0 and row[0] == "unusable" and what in row[1] and advice in row[2]


def test_nvrtc_is_found_where_the_toolkit_is(tmp_path, make):
    (tmp_path / "lib64").mkdir()
    path = tmp_path / "lib64" / "libnvrtc.so.13"
    path.touch()
    assert doctor(CUDA_HOME=tmp_path)[1]["NVRTC"][0] == "not found"
    make(NVRTC, path)
    assert doctor(CUDA_HOME=tmp_path)[1]["NVRTC"] == ("ok", f"nvrtc 13.1 {path}", "")


def test_nvrtc_is_found_beside_the_libraries_that_pytorch_loads(tmp_path, make):
    """A PyTorch as wheels for CUDA are: its import loads a library from a package of CUDA's, whose neighbour is NVRTC's."""
    for name in ("cuda_runtime", "cuda_nvrtc"):
        (tmp_path / "nvidia" / name / "lib").mkdir(parents=True)
    runtime = tmp_path / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.13"
    make("int some;", runtime)
    make(NVRTC, tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.13")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"import ctypes\nctypes.CDLL({str(runtime)!r})\n")
    info = tmp_path / "torch-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 99.0\n")
    text = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from dynoc import _doctor; sys.exit(_doctor.main(['--json']))"
    checks = json.loads(run_python(["-c", text])[1])["checks"]
    assert checks["NVRTC"]["state"] == "ok" and checks["NVRTC"]["found"].endswith("cuda_nvrtc/lib/libnvrtc.so.13")
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.13: no such file')\n")
    checks = json.loads(run_python(["-c", text])[1])["checks"]
    assert checks["PyTorch"]["state"] == "unusable" and "libcudart.so.13: no such file" in checks["PyTorch"]["found"]
    assert checks["NVRTC"]["state"] == "not found"


def test_a_driver_that_is_no_library(tmp_path):
    (tmp_path / "libcuda.so.1").write_text("no library")
    state, what, _ = doctor(LD_LIBRARY_PATH=tmp_path)[1]["CUDA driver"]
    assert state == "unusable" and "libcuda.so.1" in what
