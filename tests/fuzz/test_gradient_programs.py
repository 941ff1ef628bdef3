"""Random functions of tensors that require gradients: values, gradients of some and of all results, and gradients of these."""

import random

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402

ONE = (
    "torch.sin({a})", "torch.tanh({a})", "{a}.exp().clamp(max=50.0)", "torch.sigmoid({a})", "F.relu({a})", "{a} * 2", "-{a}",
    "{a}.abs()", "F.elu({a})", "{a} ** 2", "({a}.abs() + 0.1).sqrt()", "({a}.abs() + 0.5).log()", "F.gelu({a})", "F.silu({a})",
    "{a}.clamp(-1, 1)", "{a}.softmax(-1)", "{a}.detach()", "{a}.clone()", "{a}.cumsum(0)", "F.leaky_relu({a})", "F.softplus({a})",
    "1 / ({a}.square() + 1)", "{a}.floor()", "torch.where({a} > 0, {a}, {a} * 0.1)", "{a}.pow(3)", "({a} > 0).double()",
    "{a}.sum(0, keepdim=True).expand(3, 4)", "{a}.mean(1, keepdim=True) + {a}",
        "{a}.T.reshape(3, 4)", "{a}[[0, 2, 1]]",
    "{a} - {a}.mean()", "{a}.reshape(4, 3).T", "{a}.view(12)[:12].view(3, 4)", "{a}.flip(0)", "{a}[:, 1:2] * {a}",
    "{a}.chunk(2, 1)[1].repeat(1, 2)", "{a}.amax(1, keepdim=True) * {a}", "{a}.var(0) + {a}", "F.layer_norm({a}, (4,))",
    "{a}[1].expand(3, 4)", "{a}.narrow(1, 0, 2).sum(1, keepdim=True) * {a}", "F.dropout({a}, 0.4, True)",
)  # fmt: skip
TWO = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / ({b}.square() + 1)", "torch.maximum({a}, {b})",
    "torch.where({a} > {b}, {a}, {b})",
    "{a}.addcmul({a}, {b}, value=0.3)", "torch.lerp({a}, {b}, 0.2)", "{a} @ {b}.T @ {a} * 0.1", "torch.cat([{a}, {b}], 0)[:3]",
    "torch.stack([{a}, {b}]).sum(0)", "{a}.masked_fill({b} > 0, 0.5)", "F.linear({a}, {b}) @ {b} * 0.1",
)  # fmt: skip
IN_PLACE = ("{v}.add_(1)", "{v}.mul_({b})", "{v}[0] = 1.0", "{v}[:, 1] = {b}[:, 0]", "{v}.relu_()")
REAL = (ONE, TWO, IN_PLACE)
HALVES = (tuple(text.replace("double()", "to(x.dtype)") for text in ONE) + ("{a}.float().sin().to(x.dtype)",), TWO, IN_PLACE)
COMPLEX = (
    (
        "torch.sin({a})", "torch.tanh({a} * 0.3)", "{a} * 2", "-{a}", "{a}.exp() * 0.1", "{a} ** 2", "{a}.abs() + {a}",
        "{a}.real * {a}", "{a}.imag + {a}", "{a}.conj()", "torch.conj_physical({a})", "({a}.abs() + 0.1).sqrt() * {a}",
        "{a}.detach()", "{a}.clone()", "{a}.cumsum(0)", "{a}.sum(0, keepdim=True).expand(3, 4)",
        "{a}.mean(1, keepdim=True) + {a}",
        "{a}.T.reshape(3, 4)", "{a}[[0, 2, 1]]", "{a}.mH.reshape(3, 4)", "{a}.flip(0)", "{a}[:, 1:2] * {a}", "{a} * (1 + 2j)",
        "{a} + 1j", "torch.view_as_complex(torch.view_as_real({a}).sin())", "{a}.square()", "torch.sqrt({a} + 3)",
        "torch.log({a} + 4)", "{a}[1].expand(3, 4)", "torch.complex({a}.real, {a}.imag * 2)",
    ),
    (
        "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / ({b} * 0.1 + 3)", "torch.where({a}.real > {b}.real, {a}, {b})",
        "{a} * {b}.conj()", "torch.cat([{a}, {b}], 0)[:3]", "torch.stack([{a}, {b}]).sum(0)", "{a} @ {b}.mH @ {a} * 0.1",
        "{a} * {b}.abs()", "torch.lerp({a}, {b}, 0.2)", "{a}.addcmul({a}, {b})",
    ),
    IN_PLACE[:-1],
)  # fmt: skip


def program(draw, texts=REAL):
    one, two, in_place = texts
    lines, names = ["def f(x, y, z):"], ["x", "y", "z"]
    for k in range(draw.randint(2, 9)):
        name, kind, a, b = f"v{k}", draw.random(), draw.choice(names[-4:]), draw.choice(names)
        if kind < 0.05:
            lines += ["    with torch.no_grad():", f"        {name} = {draw.choice(one).format(a=a)}"]
        elif kind < 0.12:
            lines += [f"    {name} = {a} * 1", "    " + draw.choice(in_place).format(v=name, b=b)]
        else:
            lines.append(f"    {name} = {draw.choice(one if kind < 0.65 else two).format(a=a, b=b)}")
        names.append(name)
    shown = draw.sample(names[3:], draw.randint(1, min(3, len(names) - 3)))
    return "\n".join([*lines, f"    return ({', '.join(shown)},)"])


def zeros_for_none(gradients, inputs):
    return [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True)]


def outcome(f, seed, dtype=torch.float64):
    """What a call gives, which of it requires gradients, and gradients: of the first result, with regard to it, of all."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(3, 4, generator=generator, dtype=dtype) for _ in range(3)]
    inputs[0].requires_grad_()
    inputs[1].requires_grad_(seed % 2 == 1)
    wanted = [x for x in inputs if x.requires_grad]
    torch.manual_seed(seed)
    try:
        made = f(*inputs)
        seen = [[m.detach().clone() for m in made], [m.requires_grad for m in made]]
        followed = [m for m in made if m.requires_grad]
        if not followed:
            return seen
        weights = [torch.randn(m.shape, generator=generator, dtype=m.dtype) for m in followed]
        seen.append(torch.autograd.grad(followed[0], wanted, weights[0], allow_unused=True, retain_graph=True))
        seen.append(torch.autograd.grad(followed[-1], followed[0], weights[-1], allow_unused=True, retain_graph=True))
        first = torch.autograd.grad(followed, wanted, weights, allow_unused=True, create_graph=True)
        total = sum((g.abs().square().sum() for g in first if g is not None and g.requires_grad), torch.zeros(()))
        second = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None] * len(wanted)
        return [*seen, first, zeros_for_none(second, wanted)]
    except RuntimeError as error:
        return [str(error)[:40]]


def is_near(a, b):
    if a.dtype not in (torch.bfloat16, torch.float16):
        return torch.allclose(a, b, rtol=1e-7, atol=1e-8, equal_nan=True)
    largest = a.double().nan_to_num(posinf=0, neginf=0).abs().max()
    return torch.allclose(a.double(), b.double(), rtol=0.06, atol=float(0.06 * (largest + 0.05)), equal_nan=True)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        same = isinstance(b, torch.Tensor) and a.shape == b.shape and a.dtype == b.dtype
        return same and is_near(a.detach(), b.detach())
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(equal, a, b))
    return a == b


def compare(seeds, texts, dtype):
    """Random programs in eager and in dynoc; those of halves without gradients of gradients, which rounding makes anything of."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if dtype.is_complex else dtype)
    many = 6 if dtype.itemsize > 2 else 4
    try:
        for seed in seeds:
            source = program(random.Random(seed), texts)
            names = {"torch": torch, "F": torch.nn.functional}
            exec(source, names)
            fast = dynoc.optimize(names["f"], wait=True)
            for turn in range(3):
                expected, seen = (outcome(f, 7 * seed + turn, dtype) for f in (names["f"], fast))
                same = equal(expected[:many], seen[:many])
                assert same, f"seed {seed}, turn {turn}\n{source}\n{expected}\n{seen}"
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_gradients_are_eagers(first):
    compare(range(first, first + 10), REAL, torch.float64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_halves_are_eagers(dtype):
    compare(range(10), HALVES, dtype)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_gradients_of_complex_numbers_are_eagers(first):
    compare(range(first, first + 10), COMPLEX, torch.complex128)
