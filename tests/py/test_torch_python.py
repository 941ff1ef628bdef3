"""Python around tensors in one graph: devices and sizes as values, parameters as keys, exceptions of called functions."""

import collections

import pytest

torch = pytest.importorskip("torch")

import dynoc  # noqa: E402

nn = torch.nn
LAYER = nn.Linear(4, 4)
CALLS = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 3, 5)]


def tried_attribute(x):
    try:
        return x.no_such_name
    except AttributeError as error:
        return x * len(str(error))


def tried_method(x):
    try:
        return x.no_such_name(2)
    except AttributeError:
        return x * 3


def tried_number(x, text):
    try:
        value = int(text)
    except (TypeError, ValueError):
        value = 7
    else:
        value += 1
    finally:
        x = x * 2
    return x * value


def tried_text(x):
    try:
        return x * "abc".index("z")
    except ValueError:
        return x * 5


def text_of_what_was_raised(x):
    try:
        raise KeyError("deep", 3)
    except KeyError as error:
        return x * len(str(error)) + len(f"{error}")


def arguments_of_what_a_builtin_raised(x):
    table = {"k": x}
    try:
        return table["n"]
    except KeyError as error:
        table[error.args[0]] = x * 2
    return table["n"] + len(table)


def largest_of_constants(x):
    return x * max((1, 2), (1, 3))[1] + len(min("abc", "ab")) + max([("b", 1), ("a", 2)])[1] + int("10", 2) + round(2.567, 1)


def ordered_by(parameters, x):
    total = x
    for parameter, count in parameters.items():
        total = total + parameter.sum() * count
    return total


def keys_by_subscript(x):
    state = {}
    for index, parameter in enumerate(LAYER.parameters()):
        state[parameter] = index + 1
    return ordered_by(state, x) + (LAYER.weight in state) * len(state)


def keys_by_setdefault(x):
    state = {}
    for name, parameter in list(LAYER.named_parameters()) * 2:
        state.setdefault(parameter, []).append(name)
    return x * sum(len(names) for names in state.values()) + state.pop(LAYER.bias)[0].count("b")


def keys_of_a_defaultdict(x):
    state = collections.defaultdict(dict)
    state[LAYER.weight]["mean"] = x * 2
    state[LAYER.weight]["square"] = x * 3
    return state[LAYER.weight]["mean"] + state[LAYER.weight]["square"] + len(state)


def keys_by_identity(x):
    names = {id(parameter): name for name, parameter in LAYER.named_parameters()}
    return x * len(names[id(LAYER.weight)]) + len({id(parameter) for parameter in [*LAYER.parameters()] * 2})


def keys_that_are_missing(x):
    state = {LAYER.bias: 1}
    try:
        return x * state[LAYER.weight]
    except KeyError:
        return x * state.get(LAYER.weight, 2) + next(iter(state))


def keys_are_handed_on(x):
    return x * 2, {LAYER.weight: x * 3, LAYER.bias: 4}


def devices_as_values(x):
    made = torch.device("cpu"), torch.device(type="cpu"), torch.device(x.device)
    table = {made[0]: 2, x.dtype: 3}
    return x.to(made[0]) + torch.zeros(4, device=made[1]) + table[x.device] * table[torch.float32] + made[2].type.count("c")


def sizes_as_values(x):
    size = torch.Size([1, *x.shape])
    wide = x.expand(size + torch.Size((1,))[1:])
    return wide.sum(0) * torch.Size([2, 3]).numel() + x.shape.numel() + size.count(1) + x.shape.index(4)


def size_given_back(x):
    return x + 1, torch.Size([x.shape[0], 2]), torch.Size(())


def texts_of_sizes_and_types(x):
    return x * len(f"{x.shape} {x.dtype}") + ("float32" in str(x.dtype))


def facts_of_classes(x):
    return x + hasattr(type(3), "no_such_name") + hasattr(nn.Linear, "forward") + hasattr(type(LAYER), "backward")


BODIES = [
    tried_attribute,
    tried_method,
    lambda x: tried_number(x, "12") + tried_number(x, "z"),
    tried_text,
    text_of_what_was_raised,
    arguments_of_what_a_builtin_raised,
    largest_of_constants,
    keys_by_subscript,
    keys_by_setdefault,
    keys_of_a_defaultdict,
    keys_by_identity,
    keys_that_are_missing,
    keys_are_handed_on,
    devices_as_values,
    sizes_as_values,
    size_given_back,
    texts_of_sizes_and_types,
    facts_of_classes,
]


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and torch.allclose(a, b)
    if isinstance(a, dict):
        return all(k is m and equal(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True))
    return all(map(equal, a, b)) if type(a) is tuple else a == b


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@pytest.mark.parametrize("called", [False, True], ids=["alone", "called"])
def test_is_one_graph(body, called):
    fn = (lambda x: body(x)) if called else body
    captured = dynoc.optimize(fn, fullgraph=True, wait=True)
    for x in CALLS:
        assert equal(captured(x), fn(x))


def test_another_parameter_is_another_key():
    layer = nn.Linear(4, 4)

    def body(x):
        state = {parameter: index for index, parameter in enumerate(layer.parameters())}
        return x * 2, state

    captured = dynoc.optimize(body, wait=True)
    for _ in range(3):
        assert equal(captured(CALLS[0]), body(CALLS[0]))
        layer.weight = nn.Parameter(torch.randn(4, 4))


def test_an_attribute_that_a_tensor_gets_later():
    captured = dynoc.optimize(tried_attribute, wait=True)
    x = CALLS[0].clone()
    assert equal(captured(x), tried_attribute(x))
    x.no_such_name = 3
    assert captured(x) == 3
    del x.no_such_name
    assert equal(captured(x), tried_attribute(x))


def test_a_size_of_what_is_no_number():
    def body(x):
        return x.reshape(torch.Size([torch.tensor(4), -1 + x.shape[0] + 1])) * 2

    captured = dynoc.optimize(body, wait=True)
    for x in CALLS:
        assert equal(captured(x), body(x))
    with pytest.raises(TypeError, match="torch.Size"):
        dynoc.optimize(lambda x: (x * 2, torch.Size(["a"])), wait=True)(CALLS[0])
