"""Steps of PyTorch's optimisers on CUDA devices. The device is a stand-in (test_cuda.py), whose kernels round as a device's do,
where PyTorch's operators on the processor take products of three in another order: results are within that of theirs. To the bit
`bench/gpu_check.py steps` compares them on a device."""

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402
from dynoc import _optimizers  # noqa: E402
from test_cuda import device, library, pytestmark  # noqa: E402, F401
from test_torch_optimizers import ALL_OPTIONS, SHAPES, give_gradients, states, twins  # noqa: E402

EPS = {torch.float32: 1e-6, torch.float64: 1e-14, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.fixture
def waits(device, monkeypatch):  # noqa: F811
    monkeypatch.setattr(dynoc.config, "wait", True)
    return device


def compare(kind, options, dtype, shapes=SHAPES):
    (plain, fast), both = twins(kind, dtype, options, shapes)
    for i in range(4):
        give_gradients(both, 10.0 ** (i - 2))
        plain.step()
        if not _optimizers.make(fast):
            assert i == 0
            fast.step()
    for p, q in zip(*both, strict=True):
        torch.testing.assert_close(q, p, rtol=EPS[dtype], atol=EPS[dtype], msg=lambda text: f"{options}: {text}")
        assert q._version == p._version
    for (name, mine, n), (_, theirs, m) in zip(states(fast, both[1]), states(plain, both[0]), strict=True):
        off = 10 * EPS[dtype]
        torch.testing.assert_close(mine, theirs, rtol=off, atol=off, msg=lambda text, s=name: f"{options}, {s}: {text}")
        assert n == m, (options, name)


@pytest.mark.parametrize("kind", ALL_OPTIONS)
def test_each_option(waits, kind):
    for options in ALL_OPTIONS[kind]:
        compare(kind, {**options, "foreach": True}, torch.float32)


@pytest.mark.parametrize("dtype", EPS)
def test_each_dtype(waits, dtype):
    compare("AdamW", {"amsgrad": True, "eps": 1e-3}, dtype)
    compare("RMSprop", {"momentum": 0.9, "centered": True, "eps": 1e-3}, dtype)


def test_one_launch_for_many_parameters(waits):
    """As many as its arguments have room for, with pieces of long ones, and some that aren't aligned."""
    shapes = [(5,)] * 90 + [(4097, 3), (8192,)]
    before = waits.stand_in_count(b"cuLaunchKernel")
    compare("SGD", {"momentum": 0.9}, torch.float32, shapes)
    assert waits.stand_in_count(b"cuLaunchKernel") == before + 3 * 2


def test_groups_with_numbers_of_their_own(waits):
    def train(step_of):
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(7)) for _ in range(4)]
        optimizer = torch.optim.Adam([{"params": parameters[:2], "lr": 0.1}, {"params": parameters[2:], "weight_decay": 0.5}])
        for i in range(4):
            for p in parameters[i % 2 :]:  # whose counts of steps differ from the others'
                p.grad = torch.ones(7) * (1 + i)
            step_of(optimizer)
            optimizer.zero_grad()
        return parameters

    made = []
    want = train(lambda o: o.step())
    got = train(lambda o: made.append(_optimizers.make(o)) or made[-1] or o.step())
    assert made == [False, True, True, True]
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_steps_for_each_tensor_are_pytorchs(waits):
    """Its operators for one tensor round otherwise than those for lists of them."""
    (plain, fast), both = twins("SGD", torch.float32, {"foreach": False})
    give_gradients(both, 1)
    assert not _optimizers.make(fast)


def test_steps_do_not_wait_for_the_compiler(device, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(dynoc.config, "cache_dir", str(tmp_path))  # what an earlier run left would be there at once
    (plain, fast), both = twins("SGD", torch.float64, {"nesterov": True, "momentum": 0.5})  # no other test's
    give_gradients(both, 1)
    fast.step()
    made = []
    for _ in range(2):
        made.append(_optimizers.make(fast))
        dynoc.wait()
    assert made == [False, True]


def test_a_launch_that_fails(waits):
    (plain, fast), both = twins("SGD", torch.float32, {})
    give_gradients(both, 1)
    assert _optimizers.make(fast)
    waits.stand_in_fail(b"cuLaunchKernel", 719, 0)
    with pytest.raises(RuntimeError, match="launching a step of an optimiser"):
        _optimizers.make(fast)


def test_text_that_becomes_no_kernel(waits):
    (plain, fast), both = twins("SGD", torch.float16, {"nesterov": True, "momentum": 0.5})  # no other test's
    give_gradients(both, 1)
    fast.step()
    waits.stand_in_fail(b"nvrtcCompileProgram", 6, 0)
    assert not _optimizers.make(fast)


def test_while_the_program_records_steps_are_pytorchs(waits):
    (plain, fast), both = twins("SGD", torch.float32, {})
    give_gradients(both, 1)
    assert _optimizers.make(fast)
    waits.stand_in_capture(1)
    try:
        assert not _optimizers.make(fast)
    finally:
        waits.stand_in_capture(0)
