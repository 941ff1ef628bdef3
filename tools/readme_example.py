"""The README's first example with the package that is installed: what dynoc gives is what NumPy gives. Run by `make wheels`."""

import re
from pathlib import Path

import numpy as np

import dynoc

README = Path(__file__).resolve().parent.parent / "README.md"


def main():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    fast, plain = {}, {}
    exec(code, fast)
    exec(code.replace("@dynoc.optimize\n", ""), plain)
    rng = np.random.default_rng(0)
    arguments = rng.uniform(50, 150, 100_000), rng.uniform(50, 150, 100_000), rng.uniform(0.1, 2, 100_000), 0.03, 0.2
    wanted = plain["black_scholes"](*arguments)
    for _ in range(3):
        np.testing.assert_allclose(fast["black_scholes"](*arguments), wanted, rtol=1e-12, atol=1e-9)  # 1 + tanh cancels
        dynoc.wait()
    entry = fast["black_scholes"].entries[0]
    print(f"{dynoc.__file__}: {len(fast['black_scholes'].entries)} entry, {entry.tier}, as NumPy has it")


if __name__ == "__main__":
    main()
