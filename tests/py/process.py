"""Running a script in a process of its own, with the extension that this process uses."""

import os
import subprocess
import sys
import textwrap


def environment_of(**variables):
    """The environment of such a process. Keywords are variables; None removes one."""
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    for name, value in variables.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


def run_python(arguments, timeout=60, **environment):
    """(return code, stdout, stderr) of python with these arguments. Keywords are environment variables; None removes one."""
    env = environment_of(**environment)
    done = subprocess.run([sys.executable, *arguments], env=env, timeout=timeout, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def run_script(text, timeout=60, **environment):
    """As run_python, for the text of a script."""
    return run_python(["-c", textwrap.dedent(text)], timeout, **environment)


def output_of(text, timeout=60, **environment):
    """stdout of a script that has to succeed."""
    code, out, err = run_script(text, timeout, **environment)
    assert code == 0, err
    return out.strip()


def program(path, text):
    """Writes a shell script, say one in a compiler's place; its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)
