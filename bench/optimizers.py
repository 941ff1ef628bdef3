"""Steps of PyTorch's optimisers, as PyTorch makes them and as dynoc does, in turns.

    python bench/optimizers.py [--threads N] [--device cuda]

Prints a row for each optimiser and each set of parameters: microseconds of a step with ``foreach=False``, ``foreach=True``,
``fused=True`` (where PyTorch has it) and under `dynoc.optimize(optimizer.step)`, and the last by the best of the others. Each is
the least of the turns that fit into a second.
"""

import argparse
import time

import torch

import dynoc

SETS = {
    "6 of 32 x 32": [(32, 32), (32,)] * 3,
    "48 of 256 x 256": [(256, 256), (256,)] * 24,
    "6 of 1024 x 1024": [(1024, 1024)] * 6,
    "148 of 768 x 768": [(768, 768), (768,)] * 74,
}
OPTIMIZERS = {
    "SGD": ("SGD", {}),
    "SGD, decay": ("SGD", {"weight_decay": 0.01}),
    "SGD, momentum": ("SGD", {"momentum": 0.9}),
    "SGD, Nesterov": ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": ("Adam", {}),
    "Adam, amsgrad": ("Adam", {"amsgrad": True, "weight_decay": 0.01}),
    "AdamW": ("AdamW", {}),
    "Adagrad": ("Adagrad", {}),
    "RMSprop": ("RMSprop", {}),
    "RMSprop, all": ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.01}),
}
FORMS = ({"foreach": False}, {"foreach": True}, {"fused": True}, None)


def step_of(kind, options, form, shapes, device="cpu"):
    """A function that makes a step; None: PyTorch hasn't the form."""
    if form == {"fused": True} and (kind == "RMSprop" or (kind, device) == ("Adagrad", "cuda")):
        return None
    parameters = [torch.nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = getattr(torch.optim, kind)(parameters, lr=1e-3, **options, **(form or {}))
    optimizer.step()
    return optimizer.step if form is not None else dynoc.optimize(optimizer.step)


def least(steps, seconds=1.0, wait=lambda: None):
    """Microseconds of the fastest call of each, called in turns; `wait`: for what a call has started."""
    best = [float("inf")] * len(steps)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, step in enumerate(steps):
            if step is not None:
                start = time.perf_counter()
                step()
                wait()
                best[i] = min(best[i], time.perf_counter() - start)
    return [None if step is None else 1e6 * b for step, b in zip(steps, best, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    wait = torch.cuda.synchronize if asked.device != "cpu" else lambda: None
    print("| parameters | optimiser | for each | foreach | fused | dynoc | by the best |\n|---|---|---|---|---|---|---|")
    for name, shapes in SETS.items():
        for label, (kind, options) in OPTIMIZERS.items():
            times = least([step_of(kind, options, form, shapes, asked.device) for form in FORMS], wait=wait)
            best = min(t for t in times[:3] if t is not None)
            cells = " | ".join("-" if t is None else f"{t:.0f}" for t in times)
            print(f"| {name} | {label} | {cells} | {times[3] / best:.2f} |", flush=True)


if __name__ == "__main__":
    main()
