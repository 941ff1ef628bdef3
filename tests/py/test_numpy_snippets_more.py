"""More snippets: results are plain NumPy's, and each is one graph without a break, where loops don't run natively."""

import numpy as np
import pytest
from compare import check, dynoc
from numpy_snippets_more import MORE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("snippet", MORE, ids=repr)
def test_one_graph_with_plain_results(snippet):
    report = dynoc.explain(snippet.function, options={"loops": False})(*snippet.make(np.random.default_rng(0), snippet.sizes[0]))
    fast = dynoc.optimize(snippet.function, wait=True)
    for call, n in enumerate(snippet.sizes):

        def make(call=call, n=n):
            return snippet.make(np.random.default_rng(call), n)

        check(snippet.function, fast, make, snippet.tol, what=f"size {n}")
    assert (report.graph_count, report.graph_break_count) == (1, 0)
