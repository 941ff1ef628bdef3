"""What the tests of PyTorch share: a function optimised and compared with eager, call after call."""

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402


def same(got, want):
    """Equal types, dtypes, shapes, strides and (within tolerance) values."""
    assert type(got) is type(want), (got, want)
    if isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
        assert got.requires_grad == want.requires_grad
        if want.numel() > 1:
            assert got.stride() == want.stride(), (got.stride(), want.stride())
        torch.testing.assert_close(got, want, equal_nan=True)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            same(got[key], want[key])
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=1e-5, nan_ok=True)
    else:
        assert got == want


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


def check(fn, *calls, captured=True, again=2, **options):
    """Call the optimised `fn` with each list of arguments, `again` times, and compare results and changed arguments with eager.

    captured: the whole of `fn` is one graph, and no call but the first records. Gives the optimised function.
    """
    fast = dynoc.optimize(fn, wait=True, fullgraph=captured, **options)
    for args in calls * again:
        mine, theirs = copies(args), copies(args)
        want = fn(*theirs)
        same(fast(*mine), want)
        same(mine, theirs)
    if captured:
        assert len(fast.entries) == 1, [e.guards for e in fast.entries]
        assert fast.entries[0].tier == "native" and fast.entries[0].hits == len(calls) * again - 1
    return fast


def refused(fn, make, *kinds):
    """What eager refuses with one of these kinds of exceptions is refused with the same one, recorded and compiled."""
    with pytest.raises(kinds) as expected:
        fn(make())
    fast = dynoc.optimize(fn, wait=True)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as caught:
            fast(make())
        assert str(caught.value) == str(expected.value)
