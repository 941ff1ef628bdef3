"""PyTorch tensors: captured, compiled, and equal to eager: operators, sizes, writing, state, modules."""

import os
import threading

import pytest
from process import output_of
from torch_cases import check, same, torch

import dynoc


def t(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def test_cos_and_sin_of_any_size():
    check(lambda x: torch.cos(x) + torch.sin(x), [t(10)], [t(1000)], [t(7)])


ELEMENTWISE = {
    "chain": lambda x: torch.tanh(x * 2 + 1) / (x.abs() + 1),
    "comparison": lambda x: (x > 0) & (x < 1) | (x == 2),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "power": lambda x: x.abs() ** 2 + x**3 + x.abs() ** 0.5 + 2**x,
    "reflected": lambda x: 2 - x + 1 / (x.abs() + 1),
    "clamp": lambda x: x.clamp(-1, 1) + torch.clamp(x, min=0) + x.clamp(max=0.5),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.25) + torch.lerp(x, x * 3, 0.75),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2) + torch.addcdiv(x, x, x.abs() + 1),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "add_alpha": lambda x: torch.add(x, x, alpha=3) - torch.sub(x, 1, alpha=2) + torch.rsub(x, 1),
    "rsqrt": lambda x: (x.abs() + 1).rsqrt() + torch.frac(x) + torch.round(x),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elementwise(name, dtype):
    check(ELEMENTWISE[name], [t(3, 4, dtype=dtype)], [t(30, 40, dtype=dtype)])


@pytest.mark.parametrize("a", [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool])
@pytest.mark.parametrize("b", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_promotion(a, b):
    x, y = t(5).to(a), t(5).mul(3).to(b)
    for args in ([x, y], [x[0], y], [x, y[0]], [x[0], y[0]]):
        check(lambda x, y: (x * y, x + y, x / (y + 2), x == y), args)


def test_python_numbers_are_of_their_category():
    check(lambda x: (x * 2, x * 2.5, x + True), [torch.arange(5)], [torch.arange(9)])
    check(lambda x, k: x * k, [t(5), 2.5], [t(6), 3.5])
    check(lambda x, k: x * k, [t(5), 2], [t(6), 3])


def test_where_as_a_method_takes_the_condition_second():
    check(lambda x, y: x.where(y > 0, y), [t(3, 4), t(3, 4) - 1], [t(5, 6), t(5, 6) - 1])
    check(lambda x, y: (x > 1).where(y > 0, y > 1), [t(3, 4), t(3, 4) - 1], [t(5, 6), t(5, 6) - 1])


def test_sums_and_means():
    check(lambda x: (x.sum(), x.sum(1), x.mean(), x.mean(dim=-1, keepdim=True), x.sum((0, 1))), [t(3, 4)], [t(30, 40)])
    check(lambda x: (x.sum(), x.sum(0, dtype=torch.float64)), [torch.arange(12).reshape(3, 4)])


def test_sizes_are_run_time_values():
    check(lambda x: x * x.shape[0] + x.size(1) + x.numel() + len(x.size()), [t(3, 4)], [t(5, 6)], [t(9, 2)])
    assert check(lambda x: x.shape, [t(3, 4)], captured=False)(t(5, 2)) == torch.Size([5, 2])


def test_products_with_bias_and_activation():
    linear = torch.nn.functional.linear
    check(lambda x, w, b: linear(x, w, b).relu(), [t(3, 4), t(5, 4), t(5)], [t(8, 9), t(7, 9), t(7)])
    check(lambda x, w: (x @ w + 1).relu(), [t(3, 4), t(4, 5)], [t(8, 9), t(9, 7)])
    check(lambda x: x.T @ x, [t(3, 4)], [t(8, 9)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_any_size_and_memory_order(dtype):
    """Ours, NumPy's library's and PyTorch's, which makes the large ones; alone, in stacks, between kernels, and handed out."""

    def made(*shape):
        return torch.randint(-8, 9, shape).to(dtype) / 8  # sums of products are exact, in whatever order

    sizes = [(2, 4, 5), (3, 2, 2), (16, 60, 110), (33, 70, 50), (47, 63, 65), (100, 64, 64), (130, 200, 90), (2, 300, 400)]
    check(lambda a, b: (a + 1) @ b * 2, *[[made(m, k), made(k, n)] for m, k, n in sizes])
    check(lambda a, b: a @ b.T, *[[made(m, k), made(n, k)] for m, k, n in sizes])
    check(lambda a, b: a.T @ b + b.sum(), *[[made(k, m), made(k, n)] for m, k, n in sizes])
    linear = torch.nn.functional.linear
    stacks = [(2, 4, 3, 5), (3, 20, 50, 60), (2, 33, 64, 64), (5, 64, 48, 64)]
    check(lambda x, w, b: linear(x, w, b).tanh(), *[[made(s, m, k), made(n, k), made(n)] for s, m, k, n in stacks])
    check(lambda x, w: linear(x[:, 1:], w) - 1, *[[made(s, m, k), made(n, k)] for s, m, k, n in stacks])
    check(lambda a, b: a @ b * 2, *[[made(s, m, k), made(s, k, n)] for s, m, k, n in stacks])
    check(lambda a, b: a.transpose(0, 1) @ b, *[[made(m, s, k), made(k, n)] for s, m, k, n in stacks])


def test_new_tensors_of_many_sizes_and_dtypes():
    """Those of equal sizes and other dtypes or strides beside one another: what they are made with is kept."""
    sizes = [(), (0,), (1,), (2, 3), (3, 2), (6,), (2, 3, 1), (1, 2, 3, 1), (1, 1, 2, 1, 3)]
    check(lambda x: (x + 1, x.double() * 2, x > 0, x.int()), *[[torch.randn(n)] for n in (2, 6, 7, 100)])
    for size in sizes:
        check(lambda x: (x * 2, x.double() * 2), [torch.randn(size)])
    check(lambda x: x * 2, [torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)])
    check(lambda x: x * 2, [torch.randn(2, 3, 4, 5)])


def test_slices():
    check(lambda x: (x[1:, ::2] + x[:-1, 1::2], x[0], x[..., None], x[-1, 2:]), [t(4, 6)], [t(8, 10)])


def test_writing_in_place():
    def change(x):
        x[1:] = 3.0
        x[0] += 1
        x.mul_(2).add_(1)
        x *= 2

    fast = check(change, [t(5)], [t(9)])
    x = t(5)
    before = x._version
    fast(x)
    assert x._version > before


def test_errors_are_pytorchs_own():
    fast = dynoc.optimize(lambda x, y: x + y, wait=True)
    fast(t(3), t(3))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        fast(t(3), t(4))
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        dynoc.optimize(lambda x, y: x @ y)(t(3, 4), t(3, 4))


def test_a_device_is_guarded_by_its_value():
    def function(x, device, others):
        y = torch.zeros(3, device=device) + x if device.type == "cpu" else x.to(device)
        return y * 2, device, others

    fast = dynoc.optimize(function, wait=True)
    for name in ("cpu", "cpu", "cpu:0", "cpu"):
        device, other = torch.device(name), torch.device(name)
        y, first, (second,) = fast(t(3), device, (other,))
        assert torch.equal(y, t(3) * 2) and first is device and second is other
    assert fast(t(3), torch.device("meta"), ())[0].is_meta
    hits = [entry.hits for entry in fast.entries]
    assert len(hits) <= 3 and hits[0] == 2


def made_where_the_default_says(x):
    y = torch.nn.functional.gelu(x) + torch.arange(x.shape[-1]) + torch.zeros(3, 1)
    places = str(torch.ones(2).device), str(torch.get_default_device())
    return places, y, torch.tensor([1.0, 2.0]) * 2, torch.nn.functional.layer_norm(y, y.shape[-1:])


def as_eager(fast, x):
    (places, *values), (places_in_eager, *values_in_eager) = fast(x), made_where_the_default_says(x)
    assert places == places_in_eager
    same(values, values_in_eager)


@pytest.fixture
def back_to_no_default_device():
    yield
    torch.set_default_device(None)


def test_default_device_is_guarded(back_to_no_default_device):
    x = torch.randn(3, 5)
    fast = dynoc.optimize(made_where_the_default_says, wait=True)
    for device in ("cpu", None, "cpu", None):
        torch.set_default_device(device)
        as_eager(fast, x)
    with torch.device("cpu"):
        as_eager(fast, x)
    assert len(fast.entries) == 2
    torch.set_default_device("meta")
    with pytest.raises(RuntimeError):
        made_where_the_default_says(x)
    with pytest.raises(RuntimeError):
        fast(x)


def test_of_several_default_devices_the_innermost_is_guarded(back_to_no_default_device):
    x = torch.randn(3, 5)
    fast = dynoc.optimize(made_where_the_default_says, wait=True)
    torch.set_default_device("cpu")
    as_eager(fast, x)
    with torch.device("cpu"):
        as_eager(fast, x)
        as_eager(fast, x)
    assert len(fast.entries) == 1
    torch.set_default_device("meta")
    with torch.device("cpu"):
        as_eager(fast, x)
    assert len(fast.entries) == 1
    with torch.device("cpu"), torch.device("meta"), pytest.raises(RuntimeError):
        fast(x)


def test_a_network_under_a_default_device_is_one_graph(back_to_no_default_device):
    torch.set_default_device("cpu")
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.0), nn.Linear(8, 2)).eval()
    told = dynoc.explain(model)(torch.randn(3, 4))
    assert (told.graph_count, told.graph_break_count) == (1, 0)


def test_default_dtype_is_guarded():
    fast = dynoc.optimize(lambda x: x / 2, wait=True)
    x = torch.arange(5)
    same(fast(x), x / 2)
    torch.set_default_dtype(torch.float64)
    try:
        same(fast(x), x / 2)
        assert fast(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    same(fast(x), x / 2)


def test_views_of_what_comes_in_stay_views():
    fast = dynoc.optimize(lambda x: (x[1:], x * 2), wait=True)
    for n in (5, 6, 7):
        x = t(n)
        view = fast(x)[0]
        assert view.data_ptr() == x.data_ptr() + 4 and view.storage_offset() == 1
        view.zero_()
        assert x[1:].eq(0).all()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) * self.scale


def test_a_module_is_one_graph():
    net = Net().eval()
    with torch.no_grad():
        check(lambda x: net(x), [t(3, 4)], [t(7, 4)])


def test_gradients_are_autograds():
    net = Net()
    fast = dynoc.optimize(lambda x: net(x), wait=True)
    for n in (3, 5):
        out = fast(t(n, 4))
        assert out.requires_grad
        out.sum().backward()
    assert net.first.weight.grad is not None
    x = t(3).requires_grad_()
    dynoc.optimize(lambda x: (x * 2).sum())(x).backward()
    same(x.grad, torch.full((3,), 2.0))


def test_no_grad_inside():
    net = Net()

    def inner(x):
        with torch.no_grad():
            return net(x) * 2

    fast = check(inner, [t(3, 4)], [t(7, 4)])
    assert torch.is_grad_enabled() and not fast(t(3, 4)).requires_grad
    with torch.no_grad():
        same(fast(t(3, 4)), inner(t(3, 4)))
        assert not torch.is_grad_enabled()


def test_a_parameter_that_is_replaced_is_seen():
    net = Net().eval()
    with torch.no_grad():
        fast = dynoc.optimize(lambda x: net(x), wait=True)
        fast(t(3, 4))
        net.first.weight.mul_(3)
        same(fast(t(3, 4)), net(t(3, 4)))
        net.first = torch.nn.Linear(4, 8)
        same(fast(t(3, 4)), net(t(3, 4)))
        net.scale = torch.tensor(5.0)
        same(fast(t(3, 4)), net(t(3, 4)))


def test_subclasses_and_other_layouts_run_eagerly():
    class Mine(torch.Tensor):
        pass

    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
    for x in (t(3).as_subclass(Mine), torch.ones(3, dtype=torch.complex64).conj(), torch.ones(3, device="meta")):
        got = fast(x)
        assert type(got) is type(x * 2) and got.device == x.device
    assert torch.equal(fast(t(3)), t(3) * 2 + 1)


def test_modes_are_left_alone():
    fast = dynoc.optimize(lambda x: x * 2 + 1, wait=True)
    fast(t(3))
    same(torch.vmap(fast)(t(4, 3)), t(4, 3) * 2 + 1)
    with torch.inference_mode():
        assert fast(t(3)).is_inference()
    same(torch.func.grad(lambda x: fast(x).sum())(t(3)), torch.full((3,), 2.0))


class Optional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        if hasattr(self, "groups") and self.groups > 1:
            y = y * self.groups
        return y * getattr(self, "scale", 2)


def test_what_a_module_lacks_is_known_until_it_is_set():
    net, x = Optional().eval(), t(2, 3)
    with torch.no_grad():
        fast = check(lambda x: net(x), [x])
        net.groups = 5
        same(fast(x), net(x))
        net.scale = torch.nn.Parameter(torch.ones(1))
        same(fast(x), net(x))
        del net.groups, net.scale
        same(fast(x), net(x))


def test_replaced_weights_of_a_recurrent_layer_are_seen():
    net, x = torch.nn.LSTM(4, 8).eval(), t(5, 2, 4)
    with torch.no_grad():
        fast = dynoc.optimize(lambda x: net(x)[0], wait=True)
        for _ in range(2):
            same(fast(x), net(x)[0])
        net.weight_hh_l0.mul_(2)
        same(fast(x), net(x)[0])
        net.weight_ih_l0 = torch.nn.Parameter(torch.randn_like(net.weight_ih_l0))
        same(fast(x), net(x)[0])


def test_out_that_would_be_resized():
    def into(x, out):
        torch.add(x, 1, out=out)
        return out * 2

    fast = dynoc.optimize(into, wait=True)
    for size in (3, 3, 0, 3):
        same(fast(t(3), torch.empty(size)), into(t(3), torch.empty(size)))


def test_threads_share_entries():
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    fast = dynoc.optimize(lambda x: (torch.softmax(net(x) * 2 + x.sum(), -1), x[1:], x * 2), wait=True)
    wrong = []

    def work(start):
        with torch.no_grad():
            for i in range(400):
                x = t(2 + (i * 7 + start * 13) % 50, 8)
                got = fast(x)
                near = torch.allclose(got[0], torch.softmax(net(x) * 2 + x.sum(), -1), atol=1e-5)
                if not (near and torch.equal(got[1], x[1:]) and torch.equal(got[2], x * 2)):
                    wrong.append((start, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_conjugate_and_negative_bits():
    fast = dynoc.optimize(lambda x: x * 2, wait=True)
    z = torch.randn(5, dtype=torch.complex64)
    for x in (z.imag, z.conj().imag, z.conj().imag[:1], z.conj().imag[0], z, z.conj(), z.conj().imag):
        for _ in range(2):
            same(fast(x), x * 2)


def test_what_dtypes_say():
    def limits(x, y):
        t = torch.promote_types(x.dtype, torch.float64)
        lowest, bits = torch.finfo(x.dtype).min, torch.iinfo(torch.int32).bits
        kinds = torch.result_type(x, 2.5), torch.can_cast(x.dtype, torch.int32), torch.finfo().max
        return x.masked_fill(y, lowest) + torch.finfo(t).eps * bits, kinds

    fast = dynoc.optimize(limits, wait=True, fullgraph=True)
    for dtype in (torch.float32, torch.float64):
        for n in (3, 4):
            given = torch.randn(n).to(dtype), torch.tensor([True, False] * n)[:n]
            (got, kinds), (want, others) = fast(*given), limits(*given)
            torch.testing.assert_close(got, want)
            assert kinds == others
    assert len(fast.entries) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_as_many_threads_as_torch_allows():
    script = """
        import os, torch, dynoc
        fast, x = dynoc.optimize(lambda x: torch.cos(x) + torch.sin(x), wait=True), torch.randn(3_000_000)
        for n in (1, 2):
            torch.set_num_threads(n)
            with torch.no_grad():
                for _ in range(5):
                    fast(x)
            print(len(os.listdir("/proc/self/task")))
    """
    one, two = map(int, output_of(script, OMP_NUM_THREADS=None).split())
    assert two > one
