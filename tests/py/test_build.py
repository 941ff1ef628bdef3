"""From C source to loaded code: compiler, disk cache, loading, the build thread, fork, exit, the thread pool.

Each case runs in a process of its own, with its own cache folder, and drives _dynoc._build_test(source), which goes through the
same queue as artifacts do.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from process import program

from dynoc import _dynoc

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
typedef union {{ long i; double f; }} Scalar;
typedef struct {{ char *const *operands; long n; const Scalar *scalars; }} Args;
static void lanes_0(const Args *args) {{
    const double *a = (const double *)args->operands[0];
    double *restrict o = (double *)args->operands[1];
    for (long i = 0; i < args->n; i++) o[i] = a[i] * {factor}.0 + args->scalars[0].f;
}}
struct kernel {{ void (*lanes)(const Args *args); void (*others[FORMS - 1])(void); }};
struct table {{ long abi, count; struct kernel kernels[1]; }};
__attribute__((visibility("default"))) const struct table dyn_kernels = {{ VERSION, 1, {{ {{ lanes_0 }} }} }};
""".replace("VERSION", re.search(r"define DYN_NATIVE_ABI (\d+)", (ROOT / "src/codegen/native.h").read_text())[1])
SOURCE = SOURCE.replace("FORMS", str(len(re.findall(r"^FORM\(", (ROOT / "src/codegen/native.def").read_text(), re.MULTILINE))))

PRELUDE = """
import json, os, sys, threading, time
import numpy  # a fork while another thread imports it may hang, with and without dynoc
from dynoc import _dynoc
SOURCE = {source!r}
def source(factor=2): return SOURCE.format(factor=factor)
def build(factor=2): return _dynoc._build_test(source(factor))[:2]
def out(value): print(json.dumps(value))
"""


def run(script, cache=None, env=None, timeout=60):
    """The JSON that the script's last output line holds, and all of stderr."""
    full = dict(os.environ)
    full["XDG_CACHE_HOME"] = full.get("DYNOC_CACHE_DIR", "/nowhere")  # not the user's folder
    full.update(env or {})
    for name in [n for n in full if n.startswith("DYNOC_")]:
        del full[name]
    code = PRELUDE.format(source=SOURCE) + "_dynoc.set_config('retire', False)\n"  # nothing goes by time
    if cache is not None:
        code += f"_dynoc.set_config('cache_dir', {str(cache)!r})\n"
    code += textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], env=full, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def objects(cache):
    return sorted(glob.glob(str(cache / "*.so")))


def running(group):
    """Processes of a process group, without those that have ended and that nobody has waited for."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                state, _, pgrp = f.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if pgrp == group.strip() and state != "Z":
            found.append(path)
    return found


# ---- What is loaded.

MAPS = "def maps(): return sum('dynoc-' in line for line in open('/proc/self/maps'))\n"


def test_equal_objects_are_loaded_once(cache):
    script = MAPS + "done = [build()]; n = maps(); done += [build() for _ in range(20)]; out([done, maps() - n])"
    done, grown = run(script, cache)[0]
    assert done == [["native", "compiled"]] + [["native", "disk"]] * 20 and grown == 0


def test_objects_without_users_make_room(cache):
    script = "_dynoc._load_limit(3); done = [build(k)[0] for k in [*range(8), 0]]; out([done, _dynoc._load_limit(3)])"
    done, loaded = run(script, cache)[0]
    assert done == ["native"] * 9 and loaded <= 3


def test_more_objects_in_use_than_there_is_room_for(cache):
    script = """
    import numpy as np, dynoc
    dynoc.config.wait = True
    x = np.linspace(0.0, 1.0, 50)
    def made(k):
        scope = {}
        exec("def f(x): return " + " - ".join(["x * x", "(x + x)"][k >> i & 1] for i in range(4)), scope)
        fast = dynoc.optimize(scope["f"])
        fast(x)
        assert np.allclose(fast(x), scope["f"](x))
        return fast
    _dynoc._load_limit(3)
    kept = [made(k) for k in range(5)]
    tiers = [fast.entries[0].tier for fast in kept]
    failed = dict(dynoc.counters["build"])
    same = made(0).entries[0].tier
    del kept
    dynoc.reset()
    out([tiers, failed, same, made(6).entries[0].tier])
    """
    (tiers, failed, same, later), err = run(script, cache)
    assert tiers == ["native"] * 3 + ["builtin"] * 2 and failed == {"TOO_MANY_LOADED": 2}
    assert same == later == "native" and err.count("TOO_MANY_LOADED") == 1


def test_there_is_room_for_many_objects(cache):
    script = """
    import numpy as np, dynoc
    x = np.linspace(0.0, 1.0, 50)
    def made(k):
        scope = {}
        exec("def f(x): return " + " - ".join(["x * x", "(x + x)"][k >> i & 1] for i in range(6)), scope)
        fast = dynoc.optimize(scope["f"])
        fast(x)
        return fast
    kept = [made(k) for k in range(60)]
    dynoc.wait()
    out([fast.entries[0].tier for fast in kept])
    """
    assert run(script, cache)[0] == ["native"] * 60


# ---- The compiler.


def test_builds_then_loads_from_disk(cache):
    assert run("out(build())", cache)[0] == ["native", "compiled"]
    assert len(objects(cache)) == 1
    assert os.stat(cache).st_mode & 0o777 == 0o700
    assert run("out(build())", cache)[0] == ["native", "disk"]
    assert run("out(build(3))", cache)[0] == ["native", "compiled"]
    assert sorted(os.listdir(cache)) == sorted(os.path.basename(p) for p in objects(cache))  # nothing unfinished


def test_import_starts_nothing(cache):
    script = "out([_dynoc.build_info()['started'], threading.active_count(), len(os.listdir('/proc/self/task'))])"
    assert run(script, cache, {"OPENBLAS_NUM_THREADS": "1"})[0] == [False, 1, 1]
    assert not cache.exists() or objects(cache) == []


def test_no_compiler(cache, tmp_path):
    (status, reason), err = run("out(build())", cache, {"PATH": str(tmp_path), "CC": ""})
    assert (status, reason) == ("failed", "NO_COMPILER")
    assert err.count("NO_COMPILER") == 1


def test_compiler_that_is_not_there(cache):
    script = "_dynoc.set_config('compiler', '/nowhere/cc'); out([build(), build(3)])"
    result, err = run(script, cache)
    assert result == [["failed", "NO_COMPILER"]] * 2  # no other is taken in its place
    assert err.count("/nowhere/cc") == 1


def test_compiler_that_fails(cache, tmp_path):
    cc = program(tmp_path / "cc", "echo some message; exit 1")
    script = f"_dynoc.set_config('compiler', {cc!r}); out(_dynoc._build_test(source()))"
    (status, reason, detail, _), err = run(script, cache)
    assert (status, reason) == ("failed", "COMPILER_FAILED")
    assert cc in detail and "some message" in detail
    assert objects(cache) == []
    assert err.count("COMPILER_FAILED") == 1


def test_source_error_is_told(cache):
    (status, reason, detail, _), _ = run("out(_dynoc._build_test('int f(void) { return nothing; }'))", cache)
    assert (status, reason) == ("failed", "COMPILER_FAILED")
    assert "nothing" in detail


@pytest.mark.parametrize("text", ["exec sleep 100", "sleep 100 & exec sleep 101", "exec >/dev/null 2>&1; sleep 100"])
def test_compiler_that_hangs(cache, tmp_path, text):
    cc = program(tmp_path / "cc", f"echo $$ > {tmp_path}/pid; {text}")
    script = f"""
    _dynoc.set_config('compiler', {cc!r}); _dynoc.set_config('compile_timeout', 1)
    start = time.monotonic()
    out([build(), build(3), time.monotonic() - start])
    """
    (first, second, seconds), _ = run(script, cache)
    assert first == second == ["failed", "COMPILER_HUNG"]
    assert seconds < 2.5  # the second job is not made to wait again
    assert running((tmp_path / "pid").read_text()) == []


GARBAGE = 'while [ "$1" != -o ]; do shift; done; '


@pytest.mark.parametrize(
    "text",
    [
        GARBAGE + "head -c 5000 /dev/urandom > $2",
        GARBAGE + ": > $2",
        GARBAGE + "printf '\\177ELF\\002\\001\\001' > $2",
        GARBAGE + "mkdir $2",
        "exit 0",
        'cc "$@"; ' + GARBAGE + "truncate -s -6000 $2",
        "kill -9 $$",
    ],
)
def test_compiler_that_writes_garbage(cache, tmp_path, text):
    cc = program(tmp_path / "cc", text)
    script = f"_dynoc.set_config('compiler', {cc!r}); out(build())"
    assert run(script, cache, {"TMPDIR": str(tmp_path)})[0] == ["failed", "COMPILER_FAILED"]
    assert not cache.exists() or objects(cache) == []
    assert glob.glob(str(tmp_path / "dynoc-*")) == []


def test_object_without_the_table(cache):
    assert run("out(_dynoc._build_test('int x;')[:2])", cache)[0] == ["failed", "LOAD_FAILED"]


def test_unresolved_symbol(cache):
    text = "double no_such_function(double);" + SOURCE.format(factor=2).replace("args->scalars[0].f", "no_such_function(a[i])")
    (status, reason, detail, _), _ = run(f"out(_dynoc._build_test({text!r}))", cache)
    assert (status, reason) == ("failed", "LOAD_FAILED") and "no_such_function" in detail


def test_compiler_with_arguments_and_loud_output(cache, tmp_path):
    cc = program(tmp_path / "cc", 'head -c 300000 /dev/zero | tr "\\0" x; exec cc "$@"')
    assert run(f"_dynoc.set_config('compiler', '{cc} -DX=1'); out(build())", cache)[0] == ["native", "compiled"]


def test_sigchld_ignored_and_children_reaped_by_others(cache):
    script = """
    import signal
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    first = build()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    def reap():
        while True:
            try: os.wait()
            except ChildProcessError: time.sleep(0.001)
    threading.Thread(target=reap, daemon=True).start()
    out([first, build(3)])
    """
    assert run(script, cache)[0] == [["native", "compiled"]] * 2


def test_flags_that_change_the_process_are_refused(cache):
    script = """
    _dynoc.set_config('cflags', '-ffast-math -DX=1 -Ofast')
    result = [build(), build(3)]
    import math
    out([result, 5e-324 / 1.0 > 0, _dynoc.build_info()['compiler_flags']])
    """
    (result, denormals, flags), err = run(script, cache)
    assert result == [["native", "compiled"]] * 2 and denormals
    assert "-DX=1" in flags and "-ffast-math" not in flags and "-Ofast" not in flags
    assert err.count("CFLAGS_REFUSED") == 1


def test_flags_and_compiler_are_part_of_the_key(cache, tmp_path):
    assert run("out(build())", cache)[0] == ["native", "compiled"]
    assert run("_dynoc.set_config('cflags', '-DX=1'); out(build())", cache)[0] == ["native", "compiled"]
    assert run("_dynoc.set_config('fast_math', True); out(build())", cache)[0] == ["native", "compiled"]
    cc = program(tmp_path / "cc", 'exec cc "$@"')
    script = f"_dynoc.set_config('compiler', {cc!r}); out(build())"
    assert run(script, cache)[0] == ["native", "compiled"]
    assert run(script, cache)[0] == ["native", "disk"]
    program(tmp_path / "cc", 'exec cc  "$@"')
    assert run(script, cache)[0] == ["native", "compiled"]


# ---- The disk cache.


def damage_truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def damage_trailer_only(path):
    os.truncate(path, os.path.getsize(path) - 1)


def damage_flip(path):
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 3)
        byte = f.read(1)[0]
        f.seek(-1, 1)
        f.write(bytes([byte ^ 4]))


def damage_empty(path):
    os.truncate(path, 0)


def damage_foreign(path):
    with open(path, "wb") as f:
        f.write(b"#!/bin/sh\n" * 1000)


def damage_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def damage_symlink(path):
    os.rename(path, path[:-3] + ".old")
    os.symlink(path[:-3] + ".old", path)


def damage_directory(path):
    os.unlink(path)
    os.mkdir(path)


@pytest.mark.parametrize("damage", [f for n, f in sorted(globals().items()) if n.startswith("damage_")])
def test_damaged_file(cache, damage):
    assert run("out(build())", cache)[0] == ["native", "compiled"]
    damage(objects(cache)[0])
    assert run("out(build())", cache)[0] == ["native", "compiled"]
    assert run("out(build())", cache)[0] == ["native", "disk"]


def test_file_of_another_key(cache):
    assert run("out([build(), build(3)])", cache)[0] == [["native", "compiled"]] * 2
    one, other = objects(cache)
    shutil.copyfile(one, other)
    assert sorted(run("out([build(), build(3)])", cache)[0]) == [["native", "compiled"], ["native", "disk"]]


def unusable_file(cache):
    cache.write_text("a file where the folder should be")


def unusable_parent(cache):
    cache.mkdir()
    (cache / "file").write_text("")
    return cache / "file" / "below"


def unusable_others_may_write(cache):
    cache.mkdir()
    cache.chmod(0o777)


def unusable_no_such_device(cache):
    return "/proc/dynoc"


@pytest.mark.parametrize("make", [f for n, f in sorted(globals().items()) if n.startswith("unusable_")])
def test_unusable_folder(cache, make):
    folder = make(cache) or cache
    result, err = run("out([build(), build(3), _dynoc.build_info()['cache_usable']])", folder)
    assert result == [["native", "compiled"], ["native", "compiled"], False]
    assert err.count("CACHE_IO") == 1


def test_full_folder(cache):
    cache.mkdir(0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", str(cache)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a small file system")
    try:
        (cache / "filler").write_bytes(b"x" * 4096)
        result, err = run("out([build(), build(3)])", cache)
        assert result == [["native", "compiled"]] * 2
        assert err.count("CACHE_IO") == 1
        assert os.listdir(cache) == ["filler"]
    finally:
        subprocess.run(["umount", str(cache)], check=True)


def test_file_size_limit(cache):
    """A write that fails in the middle, as on a full disk: the object is used, the cache stays clean."""
    run("out(build())", cache)
    size = os.path.getsize(objects(cache)[0]) - 10  # the compiler's file fits, the cache's doesn't
    shutil.rmtree(cache)
    script = f"""
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, -1))
    out(build())
    """
    result, err = run(script, cache)
    assert result == ["native", "compiled"]
    assert err.count("CACHE_IO") == 1
    assert os.listdir(cache) == []


def test_default_folder(tmp_path):
    place = "out([build(), _dynoc.build_info()['cache_dir']])"
    assert run(place, None, {"XDG_CACHE_HOME": str(tmp_path / "x")})[0][1] == str(tmp_path / "x" / "dynoc")
    assert run(place, None, {"XDG_CACHE_HOME": "", "HOME": str(tmp_path / "h")})[0][1] == str(tmp_path / "h" / ".cache" / "dynoc")
    assert len(objects(tmp_path / "x" / "dynoc")) == len(objects(tmp_path / "h" / ".cache" / "dynoc")) == 1


def test_many_processes_at_once(cache):
    code = PRELUDE.format(source=SOURCE) + f"_dynoc.set_config('cache_dir', {str(cache)!r})\nout([build(f) for f in range(4)])"
    all_ = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for p in all_:
        text, _ = p.communicate(timeout=60)
        assert p.returncode == 0
        assert all(status == "native" for status, _ in json.loads(text))
    assert len(os.listdir(cache)) == 4


# ---- Threads, fork, exit.


def test_64_threads_at_once(cache):
    script = """
    results = [None] * 64
    def work(i): results[i] = build(i % 3)
    all_ = [threading.Thread(target=work, args=(i,)) for i in range(64)]
    for t in all_: t.start()
    for t in all_: t.join()
    out([all(r[0] == "native" for r in results), sum(r[1] == "compiled" for r in results)])
    """
    (fine, _), _ = run(script, cache)
    assert fine
    assert len(objects(cache)) == 3


def test_fork_after_threads_started(cache):
    script = """
    first = [build(), _dynoc._par_test(1000)]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps([build(), build(3), _dynoc._par_test(1000)]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    out([first, json.loads(os.read(read, 10000)), build(4), _dynoc._par_test(1000)[0]])
    """
    (first, child, again, parent_chunks), _ = run(script, cache)
    assert first[0] == ["native", "compiled"] and first[1][:3] == [1000, 1, 0]
    assert child == [["native", "disk"], ["native", "compiled"], [1000, 1, 0, 1]]
    assert again == ["native", "compiled"] and parent_chunks == 1000


def test_fork_while_building(cache, tmp_path):
    cc = program(tmp_path / "cc", 'sleep 0.5; exec cc "$@"')
    script = f"""
    _dynoc.set_config('compiler', {cc!r})
    results = []
    def work(i): results.append(build(i))
    all_ = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in all_: t.start()
    time.sleep(0.2)
    read, write = os.pipe()
    children = []
    for n in range(3):
        pid = os.fork()
        if pid == 0:
            os.write(write, (json.dumps(build(7)) + "\\n").encode())
            os._exit(0)
        children.append(pid)
    for t in all_: t.join()
    for pid in children: os.waitpid(pid, 0)
    out([results, [json.loads(line) for line in os.read(read, 10000).split(b"\\n")[:-1]]])
    """
    (parent, children), _ = run(script, cache)
    assert parent == [["native", "compiled"]] * 3
    assert len(children) == 3 and all(status == "native" for status, _ in children)


def test_exit_while_compiling(cache, tmp_path):
    cc = program(tmp_path / "cc", f"echo $$ > {tmp_path}/pid; exec sleep 100")
    script = f"""
    _dynoc.set_config('compiler', {cc!r})
    threading.Thread(target=build, daemon=True).start()
    while not os.path.exists({str(tmp_path / "pid")!r}): time.sleep(0.01)
    time.sleep(0.1)
    out(0)
    """
    start = time.monotonic()
    run(script, cache, {"TMPDIR": str(tmp_path)})
    assert time.monotonic() - start < 10
    assert running((tmp_path / "pid").read_text()) == []
    assert glob.glob(str(tmp_path / "dynoc-*")) == []


def test_nothing_is_left_in_the_temporary_folder(cache, tmp_path):
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    run("out([build(), _dynoc._build_test('x')[0]])", cache, {"TMPDIR": str(tmp)})
    assert os.listdir(tmp) == []


@pytest.mark.parametrize("rounding", [0, 0x400, 0x800, 0xC00])
def test_workers_take_rounding_and_give_flags(rounding):
    if os.uname().machine != "x86_64":
        pytest.skip("numbers of the rounding modes are those of x86-64")
    script = f"_dynoc.set_config('threads', 4); out([_dynoc._par_test(n, {rounding}) for n in (1, 2, 3, 5, 64, 10001)])"
    for n, (once, flag, otherwise, threads) in zip((1, 2, 3, 5, 64, 10001), run(script)[0]):
        assert (once, flag, otherwise) == (n, 1, 0)
        assert threads in (1, min(n, 4))


def test_the_compiler_has_a_processor_while_it_works(cache, tmp_path):
    cc = program(tmp_path / "cc", f'touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exec cc "$@"')
    script = f"""
    _dynoc.set_config('compiler', {cc!r})
    def team(): return _dynoc._par_test(64)[3]
    before = team()
    thread = threading.Thread(target=build)
    thread.start()
    while not os.path.exists({str(tmp_path / "began")!r}): time.sleep(0.01)
    busy = team()
    _dynoc.set_config('threads', 3)
    said = team()
    _dynoc.set_config('threads', 0)
    open({str(tmp_path / "go")!r}, "w").close()
    thread.join()
    out([before, busy, said, team()])
    """
    before, busy, said, after = run(script, cache, {"OMP_NUM_THREADS": "3"})[0]
    assert before == after and before in (1, 3)
    assert [busy, said] == ([1, 1] if before == 1 else [2, 3])


def test_threads_setting():
    threads = "_dynoc.build_info()['threads']"
    assert run(f"out({threads})", None, {"OMP_NUM_THREADS": "1"})[0] == 1
    assert run(f"out({threads})", None, {"OMP_NUM_THREADS": "3,2"})[0] in (1, 3)
    assert run(f"_dynoc.set_config('threads', 5); out({threads})", None, {"OMP_NUM_THREADS": "3"})[0] in (1, 5)
    one = "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])"
    assert run(f"{one}; out({threads})", None, {"OMP_NUM_THREADS": ""})[0] == 1


def test_regions_from_many_threads():
    script = """
    _dynoc.set_config('threads', 3)
    results = []
    def work(): results.extend(_dynoc._par_test(257)[:3] for _ in range(20))
    all_ = [threading.Thread(target=work) for _ in range(8)]
    for t in all_: t.start()
    for t in all_: t.join()
    out([len(results), all(r == (257, 1, 0) for r in results)])
    """
    assert run(script)[0] == [160, True]


MS = 1_000_000


def rests(*regions):
    """How long the rest after each of (worked, waited) is, of regions that end each as soon as there are threads again."""
    ends, now = [], 1
    for region in regions:
        ends.append((now, *region))
        now = max(_dynoc._rest_test(ends)[-1], now)
    return [max(0, until - end[0]) for until, end in zip(_dynoc._rest_test(ends), ends)]


def test_a_rest_is_some_times_what_was_lost():
    assert rests((MS, 0), (MS, MS), (MS, MS + 50_000), (0, 0)) == [0, 0, 0, 0]
    assert rests((MS, 5 * MS)) == [32 * MS]
    assert rests((0, MS // 10)) == [8 * MS // 10]
    assert rests((MS, 2**60)) == [250 * MS]


def test_rests_grow_and_are_forgotten():
    late, fine = (MS, 2 * MS), (MS, MS)
    assert rests(*[late] * 5) == [8 * MS, 16 * MS, 32 * MS, 32 * MS, 32 * MS]
    assert rests(late, fine, late, late) == [8 * MS, 0, 8 * MS, 16 * MS]
    assert rests(late, late, late, fine, fine, fine, late) == [8 * MS, 16 * MS, 32 * MS, 0, 0, 0, 8 * MS]
    assert rests(*[(0, 100 * MS)] * 3) == [250 * MS] * 3


def test_build_info():
    info, _ = run("out(_dynoc.build_info())")
    assert info["compiler"] and info["compiler_version"] and info["compiler_problem"] is None
    assert info["isa"] and info["threads"] >= 1
