"""The five questions of docs/comparison.md, asked of dynoc and of its peers: what each prints, by the steps that the page names.

    python bench/questions.py dynoc|torch|numba|jax [captured|broke|recompiled|runs|time]

Each question is asked in a process of its own, as its answer often is a log that has to be switched on before the start. What is
printed: the number of lines that the answer has, and its first lines. A peer that isn't installed is said to be missing.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile

SHOWN = 12  # lines of each answer

NUMPY = """
import numpy as np
x, y = np.linspace(0, 1, 1000), np.linspace(0, 1, 1000, dtype=np.float32)
def fn(x):
    return np.sin(x) * 2 + np.cos(x)
def breaks(x):
    z = np.sin(x) * 2
    print("here")
    return z + np.cos(x)
"""
TORCH = NUMPY.replace("import numpy as np", "import numpy as np\nimport torch").replace(
    "x, y = np.linspace(0, 1, 1000), np.linspace(0, 1, 1000, dtype=np.float32)",
    "x, y = torch.linspace(0, 1, 1000, dtype=torch.float64), torch.linspace(0, 1, 1000)",
)
TORCH = TORCH.replace("np.sin", "torch.sin").replace("np.cos", "torch.cos")
NUMBA = NUMPY + """
import numba
def breaks(x):
    z = np.sin(x) * 2
    return z + np.einsum("i,i", x, x)
"""
JAX = NUMPY.replace("import numpy as np", "import jax, jax.numpy as np\njax.config.update('jax_enable_x64', True)")
JAX = JAX.replace('print("here")', "z = z if z[0] > 0 else -z")

# For each question: a program, and settings in the environment.
QUESTIONS = {
    "dynoc": {
        "captured": (NUMPY + "import dynoc\nprint(dynoc.explain(fn)(x))", {}),
        "broke": (NUMPY + "import dynoc\nprint(dynoc.explain(breaks)(x))", {}),
        "recompiled": (NUMPY + "import dynoc\nfast = dynoc.optimize(fn)\nfast(x); fast(y)", {"DYNOC_LOGS": "recompiles"}),
        "runs": (NUMPY + "import dynoc\nfast = dynoc.optimize(fn, wait=True)\nfast(x)\nprint(fast.source())", {}),
        "time": (
            NUMPY + "import dynoc\nfast = dynoc.optimize(fn, wait=True)\nfast(x)\n"
            "with dynoc.profile() as p:\n    fast(x)\nprint(p)",
            {},
        ),
    },
    "torch": {
        "captured": (TORCH + "print(torch._dynamo.explain(fn)(x))", {}),
        "broke": (TORCH + "torch.compile(breaks)(x)", {"TORCH_LOGS": "graph_breaks"}),
        "recompiled": (TORCH + "fast = torch.compile(fn)\nfast(x); fast(y)", {"TORCH_LOGS": "recompiles"}),
        "runs": (TORCH + "torch.compile(fn)(x)", {"TORCH_LOGS": "output_code"}),
        "time": (
            TORCH + "fast = torch.compile(fn)\nfast(x)\nwith torch.profiler.profile() as p:\n    fast(x)\n"
            "print(p.key_averages().table())",
            {},
        ),
    },
    "numba": {
        "captured": (NUMBA + "fast = numba.njit(fn)\nfast(x)\nprint(fast.nopython_signatures)", {}),
        "broke": (NUMBA + "numba.njit(breaks)(x)", {}),
        "recompiled": (NUMBA + "fast = numba.njit(fn)\nfast(x); fast(y)\nprint(fast.signatures)", {}),
        "runs": (NUMBA + "fast = numba.njit(fn)\nfast(x)\nprint(next(iter(fast.inspect_asm().values())))", {}),
        "time": (NUMBA + "fast = numba.njit(fn)\nfast(x)\nprint(fast.get_metadata(fast.signatures[0])['timers'])", {}),
    },
    "jax": {
        "captured": (JAX + "print(jax.make_jaxpr(fn)(x))", {}),
        "broke": (JAX + "jax.jit(breaks)(x)", {}),
        "recompiled": (JAX + "fast = jax.jit(fn)\nfast(x); fast(y)", {"JAX_EXPLAIN_CACHE_MISSES": "1"}),
        "runs": (JAX + "print(jax.jit(fn).lower(x).compile().as_text())", {}),
        "time": (
            JAX + "fast = jax.jit(fn)\nfast(x).block_until_ready()\nimport os, sys\nwith jax.profiler.trace(sys.argv[1]):\n"
            "    fast(x).block_until_ready()\nfor at, _, files in os.walk(sys.argv[1]):\n    print(*files)",
            {},
        ),
    },
}
PACKAGE = {"dynoc": "dynoc", "torch": "torch", "numba": "numba", "jax": "jax"}


def ask(peer, question):
    """The lines that the answer to a question has."""
    program, settings = QUESTIONS[peer][question]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        command = [sys.executable, path, os.path.join(folder, "trace")]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()


def main(words):
    if not words or words[0] not in QUESTIONS or len(words) > 2 or words[1:] and words[1] not in QUESTIONS["dynoc"]:
        sys.exit(__doc__.strip())
    peer = words[0]
    if importlib.util.find_spec(PACKAGE[peer]) is None:
        sys.exit(f"{peer} isn't installed for {sys.executable}")
    for question in words[1:] or QUESTIONS[peer]:
        lines = ask(peer, question)
        print(f"---- {peer}, {question}: {len(lines)} lines")
        print("\n".join(line[:160] for line in lines[:SHOWN]))


if __name__ == "__main__":
    main(sys.argv[1:])
