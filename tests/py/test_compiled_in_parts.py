"""Much text is compiled in two parts: what the recorded call needs, then the rest, for which the built-in tier stands in."""

import numpy as np
import pytest
from test_build import objects, run

pytestmark = pytest.mark.any_interpreter

FUNCTIONS = """
import itertools, warnings
import numpy as np, dynoc
def norm(x):
    c = x - x.mean(axis=-1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5)
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
def columns(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5), x.max(axis=0), (x > 0).sum(axis=0)
def middle(x):
    return x.reshape(x.shape[0], -1, 2).var(axis=1), np.abs(x).sum(axis=0), x.prod(axis=0)
def pairs(x):
    d = x[:40, None, :] - x[None, :40, :]
    return np.sqrt((d * d).sum(axis=2)), d.max(axis=1), (d * d).mean(axis=0)
ALL = [norm, softmax, columns, middle, pairs]
def arguments(dtype):
    rng = np.random.default_rng(1)
    for n, m in itertools.product((1, 2, 9, 31, 40, 64, 70), (2, 8, 16, 18, 32, 34, 66, 100)):
        x = (rng.standard_normal((n, m)) * 3).astype(dtype)
        yield x
        yield np.asfortranarray(x)
    yield np.repeat(x, 2, axis=1)[::-1, ::2]
def bits(result):
    return [(a.dtype.str, a.shape, a.tobytes()) for a in (result if isinstance(result, tuple) else (result,))]
def same(fast, usual, dtype):
    with warnings.catch_warnings(action="ignore"):
        for x in arguments(dtype):  # what records gives NumPy's bits
            fast(x), usual(x)
        return sum(bits(fast(x)) != bits(usual(x)) for x in arguments(dtype))
def made(fn, x):
    scope = {}
    exec("def f(x): return fn(x)", {"fn": fn}, scope)
    fast = dynoc.optimize(scope["f"], wait=True)
    fast(x)
    return fast
"""


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_the_first_part_alone_both_and_all_at_once_give_the_same_bits(tmp_path, dtype):
    script = FUNCTIONS + f"""
    folder, dtype = {str(tmp_path)!r}, {dtype!r}
    once = folder + "/once"
    with open(once, "w") as f:
        f.write("#!/bin/sh\\nif [ -e %s.done ]; then exit 1; fi\\ntouch %s.done\\nexec gcc \\"$@\\"\\n" % (once, once))
    os.chmod(once, 0o700)
    x = np.ones((40, 40), dtype)
    told = []
    for fn in ALL:
        _dynoc._parts_above(1 << 30)
        whole = made(fn, x)
        _dynoc._parts_above(0)
        dynoc.config.compiler = once
        first = made(fn, x)
        dynoc.wait()
        os.unlink(once + ".done")
        dynoc.config.compiler = ""
        both = made(fn, x)
        dynoc.wait()
        tiers = [f.entries[0].tier for f in (whole, first, both)]
        told.append([fn.__name__, tiers, same(first, whole, dtype), same(both, whole, dtype)])
        assert whole.entries[0].source == first.entries[0].source == both.entries[0].source
    out([told, dynoc.counters["build"]])
    """.replace("\n    ", "\n")
    told, failed = run(script, tmp_path / "cache", timeout=300)[0]
    assert told == [[name, ["native"] * 3, 0, 0] for name in ("norm", "softmax", "columns", "middle", "pairs")]
    assert failed == {"COMPILER_FAILED": 5}


def test_what_is_later_comes_behind_what_is_not(tmp_path):
    script = FUNCTIONS + '''
    _dynoc._parts_above(0)
    x = np.ones((40, 40))
    slow = "SLOW"
    with open(slow, "w") as f:
        f.write(f"""#!/bin/sh
    for w in "$@"; do case $w in *.c) grep -c "columns_[0-9][a-z_]*(const" $w >> {slow}.order;; esac; done
    sleep 0.3
    exec gcc "$@"
    """)
    os.chmod(slow, 0o700)
    dynoc.config.compiler = slow
    fasts = [dynoc.optimize(columns), dynoc.optimize(lambda x: columns(x + 1))]
    for fast in fasts:
        fast(x)
    dynoc.wait()
    out([int(line) > 0 for line in open(slow + ".order")])
    '''.replace("\n    ", "\n").replace("SLOW", str(tmp_path / "slow"))
    assert run(script, tmp_path / "cache")[0] == [True, True, False, False]  # lanes that are results are what these calls need


def held(tmp_path):
    """The beginning of a program whose compiler waits until there is a file SLOW.go."""
    return FUNCTIONS + '''
    _dynoc._parts_above(0)
    with open("SLOW", "w") as f:
        f.write("""#!/bin/sh
    while [ ! -e SLOW.go ]; do sleep 0.01; done
    exec gcc "$@"
    """)
    os.chmod("SLOW", 0o700)
    dynoc.config.compiler = "SLOW"
    x = np.ones((40, 40))
    '''.replace("\n    ", "\n").replace("SLOW", str(tmp_path / "slow"))


def test_a_fork_before_the_text_is_written(tmp_path):
    """The first artifact has the build thread, the others wait without text: child and parent write and build all of them."""
    script = held(tmp_path) + '''
    fasts = [dynoc.optimize(fn) for fn in (columns, middle, norm)]
    results = [bits(fast(x)) for fast in fasts]
    texts = [fast.entries[0].source for fast in fasts]
    def told():
        open("SLOW.go", "w").close()
        dynoc.wait()
        tiers = [fast.entries[0].tier for fast in fasts]
        built = [fast.entries[0].source for fast in fasts]
        return [tiers, [bits(fast(x)) for fast in fasts] == results, built == texts, _dynoc._load_limit(4000)]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(told()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    out([json.loads(os.read(read, 10000)), told(), all(texts)])
    '''.replace("\n    ", "\n").replace("SLOW", str(tmp_path / "slow"))
    child, parent, have_text = run(script, tmp_path / "cache")[0]
    assert have_text and child == parent
    assert child[:3] == [["native"] * 3, True, True] and child[3] >= 6  # each in two parts


def test_functions_that_go_before_their_text_is_written(tmp_path):
    """In the parent and in a child whose fork dropped what was queued. One function stays, and has both of its parts."""
    script = held(tmp_path) + '''
    import gc
    fasts = [dynoc.optimize(fn) for fn in (columns, middle, norm, softmax)]
    for fast in fasts:
        fast(x)
    del fasts[:3], fast
    dynoc.reset()
    gc.collect()
    fasts[0](x)
    def told():
        open("SLOW.go", "w").close()
        dynoc.wait()
        return fasts[0].entries[0].tier, bits(fasts[0](x)) == bits(softmax(x)), dynoc.counters["build"]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(told()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    out([json.loads(os.read(read, 10000)), told()])
    '''.replace("\n    ", "\n").replace("SLOW", str(tmp_path / "slow"))
    assert run(script, tmp_path / "cache")[0] == [["native", True, {}]] * 2


def test_little_text_is_one_object(tmp_path):
    script = """
    import numpy as np, dynoc
    x = np.ones((40, 40))
    def many(x):
        return x.var(axis=0), x.var(axis=1)
    for fn in (lambda x: x.sum(axis=1), lambda x: (x * x + 1).sum(axis=0), many):
        fast = dynoc.optimize(fn, wait=True)
        fast(x)
        dynoc.wait()
        print(_dynoc._load_limit(4000))
    fast = dynoc.optimize(many, wait=True, mode="max-autotune")
    fast(x)
    out(_dynoc._load_limit(4000))
    """
    assert run(script, tmp_path / "cache")[0] >= 5
    assert len(objects(tmp_path / "cache")) >= 5


def test_without_the_built_in_tier_all_is_one_object(tmp_path):
    script = FUNCTIONS + """
    _dynoc._builtin_switch(False)
    _dynoc._parts_above(0)
    fast = made(columns, np.ones((40, 40)))
    dynoc.wait()
    out(_dynoc._load_limit(4000))
    """.replace("\n    ", "\n")
    assert run(script, tmp_path / "cache")[0] == 1


def test_parts_go_with_their_function(tmp_path):
    script = FUNCTIONS + """
    import gc
    _dynoc._parts_above(0)
    _dynoc._load_limit(2)
    for fn in (columns, middle, norm):
        fast = made(fn, np.ones((40, 40)))
        dynoc.wait()
        fast(np.ones((50, 60)))
        assert fast.entries[0].tier == "native"
        del fast
        dynoc.reset()
        gc.collect()
    out(dict(dynoc.counters["build"]) if "build" in dynoc.counters else {})
    """.replace("\n    ", "\n")
    assert run(script, tmp_path / "cache")[0] == {}


def test_threads_call_while_parts_come(tmp_path):
    script = FUNCTIONS + """
    import threading
    _dynoc._parts_above(1 << 30)
    usual = made(columns, np.ones((40, 40)))
    xs = list(arguments("f8"))[:-1]
    with warnings.catch_warnings(action="ignore"):
        wanted = [bits(usual(x)) for x in xs]
    _dynoc._parts_above(0)
    fast = dynoc.optimize(lambda x: columns(x))
    fast(np.ones((40, 40)))
    wrong = []
    def calls():
        for _ in range(30):
            wrong.extend(x.shape for x, y in zip(xs, wanted) if bits(fast(x)) != y)
    threads = [threading.Thread(target=calls) for _ in range(3)]
    with warnings.catch_warnings(action="ignore"):
        for t in threads: t.start()
        for t in threads: t.join()
    dynoc.wait()
    out([wrong, fast.entries[0].tier])
    """.replace("\n    ", "\n")
    assert run(script, tmp_path / "cache", timeout=120)[0] == [[], "native"]
