"""Ctrl-C while a call waits for a compiler that takes long, and what a terminal shows meanwhile."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from process import program, run_script

SLEEP = 600  # s: a compiler that never ends in a test's time
PROGRAM = """
import numpy as np, dynoc, sys
fast = dynoc.optimize(lambda x: np.cos(x) + np.sin(x), wait=%s)
print("begins", flush=True)
try:
    fast(np.ones(3))
    dynoc.wait()
    print("went on", flush=True)
except KeyboardInterrupt:
    print("interrupted", fast(np.zeros(2)).tolist(), flush=True)
"""


def slow_compiler(folder):
    return program(folder / "slow", f"exec sleep {SLEEP}")


def started(folder, wait, **streams):
    env = {**os.environ, "DYNOC_COMPILER": slow_compiler(folder), "DYNOC_CACHE_DIR": str(folder / "cache")}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    streams |= {"stdout": subprocess.PIPE, "text": True, "env": env}
    streams["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
    program = subprocess.Popen([sys.executable, "-c", PROGRAM % wait], **streams)
    assert program.stdout.readline() == "begins\n"
    return program


@pytest.mark.parametrize("wait", [True, False])
def test_ctrl_c_ends_a_wait_at_once(wait, tmp_path):
    program = started(tmp_path, wait)
    time.sleep(1)  # it waits by now; were it not to, the interrupt would only come earlier
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=SLEEP / 10)
    assert out == "interrupted [1.0, 1.0]\n"
    assert program.returncode == 0


def test_a_terminal_shows_what_is_waited_for(tmp_path):
    ours, theirs = pty.openpty()
    program = started(tmp_path, True, stderr=theirs)
    os.close(theirs)
    text = b""
    while b"2 s" not in text and select.select([ours], [], [], SLEEP / 10)[0]:
        text += os.read(ours, 1000)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=SLEEP / 10)
    while select.select([ours], [], [], 1)[0]:
        try:
            text += os.read(ours, 1000)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert b"\rdynoc: waiting for the C compiler, 1 to go, 2 s (Ctrl-C ends the wait)" in text
    assert text.endswith(b"\r\x1b[K")


HANDLED = """
import os, signal, sys
import numpy as np, dynoc
class Due(Exception): pass
raised = caught = 0
def handle(number, frame):
    global raised
    raised += 1
    raise Due
def alarm(*_):
    if on:
        os.kill(os.getpid(), signal.SIGALRM)
        for _ in range(100):
            pass
class Finder:
    find_spec = alarm
def geterr(former=np.geterr):
    alarm()
    return former()
def work(x):
    total = 0.0
    y = np.sin(x) + np.log(x)
    for i in range(len(x)):
        total += y[i] * 2
    return total
fast, on = dynoc.optimize(work, wait=True), False
signal.signal(signal.SIGALRM, handle)
sys.meta_path.insert(0, Finder)
np.geterr = geterr
for _ in range(12):
    try:
        on = True
        fast(np.ones(500))
        len([])
    except Due:
        caught += 1
    on = False
print(raised > 0, raised - caught, fast(np.ones(500)) == work(np.ones(500)))
"""


def test_what_handlers_raise_while_dynoc_calls_python_is_the_programs():
    assert run_script(HANDLED) == (0, "True 0 True\n", "")
