"""What becomes of each public callable of PyTorch: docs/torch_coverage.md, made by recording a sample call of each.

    tools/torch_coverage.py [--check | --names | --show NAME]       as api_coverage.py has it

Needs the built extension on the path, and PyTorch with the package expecttest. The sample is a row of torch_samples.py, else the
first of PyTorch's own samples (torch.testing._internal) that eager takes. Run by tests/py/test_torch_coverage.py.
"""

import contextlib
import itertools
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

import api_coverage

os.environ["DYNOC_COMPILER"] = "/nonexistent"  # what is recorded counts, nothing is compiled

import torch
from torch_samples import NOT_CALLED, SAMPLES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "torch_coverage.md"
ARGUMENTS = "x y m n i b c u t im q sp f k g folder"
SPACES = {  # section: (where its names are, how a call is written, names of PyTorch's own samples)
    "torch": (torch, "torch.{}(input, *args, **kwargs)", ("{}", "nn.functional.{}")),
    "torch.Tensor": (torch.Tensor, "input.{}(*args, **kwargs)", ("{}", "nn.functional.{}")),
    "Operators and protocols of torch.Tensor": (torch.Tensor, "", ()),
    "torch.nn.functional": (torch.nn.functional, "torch.nn.functional.{}(input, *args, **kwargs)", ("nn.functional.{}", "{}")),
    "torch.special": (torch.special, "torch.special.{}(input, *args, **kwargs)", ("special.{}", "{}")),
}
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
SAMPLES_TRIED = 12


def is_public(space, name):
    value = getattr(space, name)
    if space is torch.Tensor:
        return not name.startswith("_")
    plain = callable(value) and not isinstance(value, type) and not type(value).__module__.startswith("typing")
    return plain and not name.startswith("_")


def public_names():
    found = {title: {name for name in dir(space) if is_public(space, name)} for title, (space, *_) in SPACES.items()}
    dunder = {name for name in dir(torch.Tensor) if name.startswith("__")} - {"__slotnames__"}  # copyreg puts it there
    own = {name for name in dunder if getattr(torch.Tensor, name, 0) is not getattr(object, name, 1)}
    found["Operators and protocols of torch.Tensor"] = own
    return found


def operators():
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        for name in [op.name, *(alias.name for alias in op.aliases)]:
            found.setdefault(name, op)
    return found


def samples_of(op):
    dtype = next((dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")), None)
    if dtype is not None:
        torch.manual_seed(7)
        yield from itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES_TRIED)


def takes(function, arguments):
    with contextlib.suppress(Exception):  # whatever eager says of it: it is no sample
        function(*arguments)
        return True
    return False


def own_sample(title, name, ops):
    """The first of PyTorch's own samples that eager takes, as sample_of; of several elements where there is one. Or None."""
    space, call, names = SPACES[title]
    known = [form.format(n) for n in (name, name.removesuffix("_")) for form in names]
    op = next((ops[n] for n in known if n in ops), None)
    if op is None or not callable(getattr(space, name)):
        return None
    text = source_of("input args kwargs", call.format(name))
    single = None
    for sample in samples_of(op):
        arguments = (torch.ones(3), sample.input, sample.args, sample.kwargs)
        small = isinstance(sample.input, torch.Tensor) and sample.input.numel() <= 1
        if (not small or single is None) and takes(compiled(text), copied(arguments)):
            if not small:
                return text, arguments
            single = text, arguments
    return single


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) in (tuple, list):
        return type(value)(copied(item) for item in value)
    return value


def make_arguments(folder):
    torch.manual_seed(4)
    x, y = torch.randn(12), torch.randn(12)
    a, b = torch.randn(2, 4, 4)
    return {
        "x": x,
        "y": y,
        "m": a @ a.T + torch.eye(4),
        "n": b @ b.T + torch.eye(4),
        "i": torch.randint(0, 6, (12,)),
        "b": x > 0,
        "c": torch.complex(x, y),
        "u": torch.arange(12, dtype=torch.uint8),
        "t": torch.randn(2, 3, 8),
        "im": torch.randn(2, 4, 8, 8),
        "q": torch.quantize_per_tensor(x, 0.1, 10, torch.quint8),
        "sp": torch.eye(4).to_sparse(),
        "f": 2.5,
        "k": 2,
        "g": torch.Generator().manual_seed(5),
        "folder": folder,
    }


def source_of(arguments, sample):
    """The function that is recorded: tensor work before the sample, so that a break in it has something to break."""
    statements = sample if "r = " in sample else f"r = {sample}"
    lines = [f"def sample(before, {', '.join(arguments.split())}):", "    before = before * 2.0"]
    return "\n".join([*lines, *(f"    {line}" for line in statements.split("; ")), "    return before, r", ""])


def compiled(text):
    space = {"torch": torch, "F": torch.nn.functional}
    exec(compile(text, "<sample>", "exec"), space)
    return space["sample"]


def sample_of(title, name, folder, ops):
    """(text of a function, its arguments)"""
    if name in SAMPLES.get(title, {}):
        return source_of(ARGUMENTS, SAMPLES[title][name]), (torch.ones(3), *make_arguments(folder).values())
    return own_sample(title, name, ops)


def is_called(title, name, folder, ops):
    sample = sample_of(title, name, folder, ops)
    return sample is not None and (name not in SAMPLES[title] or takes(compiled(sample[0]), sample[1]))


def missing_names():
    """Public names that have no sample, and names of the tables that aren't public."""
    ops, found = operators(), []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for title, names in public_names().items():
            left_out = {name for text in NOT_CALLED.get(title, {}).values() for name in text.split()}
            listed = left_out | SAMPLES.get(title, {}).keys()
            found += [f"{title}: {name} is no name of it" for name in listed - names]
            found += [f"{title}: {name}" for name in names - left_out if not is_called(title, name, folder, ops)]
    return sorted(found)


def classify(title, name, folder, ops, reasons):
    text, arguments = sample_of(title, name, folder, ops)
    torch.manual_seed(3)
    return api_coverage.classify(compiled(text), arguments, reasons)


def classify_all():
    """{section: {name: (word, reason)}}"""
    reasons, ops = api_coverage.Reasons().listen(), operators()
    logging.getLogger("dynoc.graph_breaks").propagate = False
    found = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for title, names in public_names().items():
            left_out = {name: why for why, text in NOT_CALLED.get(title, {}).items() for name in text.split()}
            found[title] = {
                name: ("not called", left_out[name]) if name in left_out else classify(title, name, folder, ops, reasons)
                for name in sorted(names)
            }
    return found


def report():
    made_with = ".".join(torch.__version__.split(".")[:2])
    introduction = (
        f"Made by tools/torch_coverage.py with PyTorch {made_with}: one sample call of each of the {{count}} names was recorded, "
        "PyTorch's own or one of tools/torch_samples.py. Other arguments of the same function may fare otherwise."
    )
    meanings = api_coverage.words("PyTorch") | {"not called": "needs another device or library, or is gone; the reason is given"}
    return api_coverage.document("What becomes of each public name of PyTorch", introduction, meanings, classify_all())


def show(name):
    reasons, ops = api_coverage.Reasons().listen(graph=True), operators()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for title, names in public_names().items():
            if name in names:
                print(f"{title}\n{sample_of(title, name, folder, ops)}")
                print(*classify(title, name, folder, ops, reasons))


if __name__ == "__main__":
    api_coverage.same_order_of_sets()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(api_coverage.main(sys.argv[1:], DOCUMENT, missing_names, report, show))
