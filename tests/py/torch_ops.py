"""PyTorch's own operator samples (torch.testing._internal), each called eagerly and through dynoc: same results.

Used by test_torch_opinfo.py for a slice, and as a program for all:

    torch_ops.py [--shards N --shard I] [--limit SAMPLES] [--names A,B] [--device cuda] [--gradients]

Exit status 1 where something differs. With --gradients each operator stands between two others, and gradients, and gradients of
these, are compared.

One line on stdout for each operator and dtype that differs, with its first sample that does, and counts at the end. Each operator
has a process of its own; on a device, where a process takes seconds to begin, they share one.
"""

import argparse
import copy
import os
import signal
import sys
import warnings

import torch

import dynoc

SECONDS = 300  # for one operator
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
# What eager itself does not repeat: memory that nobody filled, or results that are one of several.
UNSTEADY = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


def operators():
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if op.name not in UNSTEADY]


def samples(op, dtype, limit, device="cpu", gradients=False):
    """The first `limit` samples of the operator, made the same way each time."""
    torch.manual_seed(7)
    made = op.sample_inputs(device, dtype, requires_grad=gradients)
    return [sample for sample, _ in zip(made, range(limit), strict=False)]


def copied(value):
    """With the same strides; of other layouts, which can't be copied so, a clone."""
    if isinstance(value, torch.Tensor):
        return copy.deepcopy(value) if value.layout is torch.strided else value.clone()
    if type(value) in (tuple, list):
        return type(value)(copied(item) for item in value)
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def outcome(fn, arguments):
    """What a call gives or raises, and its arguments as they are behind it."""
    torch.manual_seed(11)
    arguments = copied(arguments)
    try:
        with torch.no_grad():
            return fn(*arguments), arguments
    except Exception as error:  # eager's own, which has to come back
        return error, arguments


def differs(got, want, where="result"):
    """What is different, in a few words, or None."""
    if type(got) is not type(want):
        return f"{where}: {type(got).__name__} for {type(want).__name__}: {str(got)[:80]} for {str(want)[:80]}"
    if isinstance(want, torch.Tensor):
        facts = [(t.dtype, t.shape, t.layout, t.requires_grad, t.is_conj(), t.is_neg()) for t in (got, want)]
        if facts[0] != facts[1]:
            return f"{where}: {facts[0]} for {facts[1]}"
        if want.layout is torch.strided and want.numel() > 1 and got.stride() != want.stride():
            return f"{where}: strides {got.stride()} for {want.stride()}"
        try:
            torch.testing.assert_close(got, want, equal_nan=True)
        except AssertionError as error:
            return f"{where}: " + " ".join(str(error).split())[:160]
    elif isinstance(want, (tuple, list)):
        if len(got) != len(want):
            return f"{where}: {len(got)} for {len(want)} items"
        for i, pair in enumerate(zip(got, want, strict=True)):
            if (found := differs(*pair, f"{where}[{i}]")) is not None:
                return found
    elif isinstance(want, dict):
        return differs(list(got.items()), list(want.items()), where)
    elif isinstance(want, Exception):
        return None if str(got) == str(want) else f"{where}: {got} for {want}"
    elif isinstance(want, (int, float, complex)):
        if got != want and not (got != got and want != want) and abs(got - want) > 1e-5 * abs(want):
            return f"{where}: {got} for {want}"
    return None


def variants(op):
    """The operator, its method, and its form that works in place, where it has them."""
    yield "function", op.op
    if op.method_variant is not None:
        yield "method", op.method_variant
    if op.inplace_variant is not None:
        yield "in place", op.inplace_variant


def check(op, dtype, limit, forms=("function", "method", "in place"), device="cpu"):
    """(number of samples, what differs): each sample is called twice, the second time natively."""
    n, wrong = 0, []
    for number, sample in enumerate(samples(op, dtype, limit, device)):
        arguments = (sample.input, sample.args, sample.kwargs)
        for form, fn in variants(op):
            if form not in forms:
                continue

            def call(input, args, kwargs, fn=fn):
                return fn(input, *args, **kwargs)

            n += 1
            want = outcome(call, arguments)
            fast = dynoc.optimize(call, wait=True)
            for time in ("first", "second"):
                got = outcome(fast, arguments)
                found = differs(got[0], want[0])
                if found is None and not isinstance(want[0], Exception):
                    found = differs(got[1], want[1], "arguments")
                if found is not None:
                    wrong.append(f"sample {number}, {form}, {time} call: {found}")
                    break
    return n, wrong


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def values_of(tensors):
    """Copies without gradients, and with the strides that elements in order have."""
    dense = [t if t is None else t.detach() for t in tensors]
    return [t.clone(memory_format=torch.contiguous_format) if t is not None and t.layout is torch.strided else t for t in dense]


def gradients_of(fn, arguments):
    """What a call raises, or what it gives, gradients of it, and of these; zeros for none, as eager has where dynoc has none."""
    torch.manual_seed(11)
    wanted = [t for t in tensors_of(arguments) if t.requires_grad]
    try:
        made = fn(*arguments)
        followed = [t for t in tensors_of(made) if t.requires_grad]
        weights = [torch.linspace(0.5, 1, max(1, t.numel()), dtype=t.dtype)[: t.numel()].view(t.shape) for t in followed]
        first = torch.autograd.grad(followed, wanted, weights, create_graph=True, allow_unused=True)
        again = [t.abs().square().sum() for t in first if t is not None and t.requires_grad]
        second = torch.autograd.grad(again, wanted, allow_unused=True) if again else [None] * len(wanted)
        zeros = [torch.zeros_like(x) if t is None else t for t, x in zip(second, wanted, strict=True)]
        results = list(tensors_of(made))
        return [t.requires_grad for t in results], values_of(results), values_of(first), values_of(zeros)
    except Exception as error:  # eager's own, which has to come back
        return error


def check_gradients(op, dtype, limit):
    """(number of samples, what differs): the operator between two others, all of which are fused where they can be."""
    n, wrong = 0, []
    dynoc.config.retire = False  # nothing small is left to PyTorch's calls
    for number, sample in enumerate(samples(op, dtype, limit, gradients=True)):
        arguments = (sample.input, sample.args, sample.kwargs)
        if not any(t.requires_grad for t in tensors_of(arguments)):
            continue

        def call(input, args, kwargs):
            first = input * 1.5 if isinstance(input, torch.Tensor) and input.is_floating_point() else input
            made = op.op(first, *args, **kwargs)
            return made * 2 if isinstance(made, torch.Tensor) and made.is_floating_point() else made

        n += 1
        want = gradients_of(call, arguments)
        fast = dynoc.optimize(call, wait=True)
        for time in ("first", "second"):
            found = differs(gradients_of(fast, arguments), want)
            if found is not None:
                wrong.append(f"sample {number}, {time} call: {found}")
                break
    return n, wrong


def run(op, limit, gradients=False):
    """One operator with each dtype, in a process of its own: what dies is a line of the report. (calls, that differ)"""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(SECONDS)
        with os.fdopen(writing, "w") as out:
            for dtype in (torch.float64,) if gradients else DTYPES:
                if dtype in (op.supported_backward_dtypes("cpu") if gradients else op.supported_dtypes("cpu")):
                    print("at", dtype, file=out, flush=True)
                    n, wrong = (check_gradients if gradients else check)(op, dtype, limit)
                    print(n, len(wrong), *wrong[:1], file=out, flush=True)
        os._exit(0)
    os.close(writing)
    total = failed = 0
    at = None
    with os.fdopen(reading) as lines:
        for line in lines:
            if line.startswith("at "):
                at = line[3:].strip()
                continue
            n, wrong, *said = line.rstrip("\n").split(" ", 2)
            total += int(n)
            failed += int(wrong)
            if int(wrong):
                print(f"{op.formatted_name} {at}: {wrong} of {n}: {''.join(said)}", flush=True)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        print(f"{op.formatted_name} {at}: the process ended with {status}", flush=True)
    return total, failed + (status != 0)


def run_here(op, limit, device):
    """The same in this process, on a device: samples that can't be made there are none."""
    total = failed = 0
    for dtype in DTYPES:
        if dtype in op.supported_dtypes(device):
            try:
                n, wrong = check(op, dtype, limit, ("function",), device)
            except (RuntimeError, NotImplementedError, TypeError) as error:
                print(f"{op.formatted_name} {dtype}: no samples: {str(error)[:100]}", flush=True)
                continue
            total += n
            failed += len(wrong)
            if wrong:
                print(f"{op.formatted_name} {dtype}: {len(wrong)} of {n}: {wrong[0]}", flush=True)
            dynoc.reset()
    return total, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--names")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gradients", action="store_true", help="of float64 samples, and gradients of these")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = options.names and options.names.split(",")
    total = failed = 0
    for number, op in enumerate(operators()):
        if number % options.shards != options.shard or (names and op.name not in names):
            continue
        here = options.device != "cpu"
        n, wrong = run_here(op, options.limit, options.device) if here else run(op, options.limit, options.gradients)
        total += n
        failed += wrong
    print(f"{total} calls, {failed} differ", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
