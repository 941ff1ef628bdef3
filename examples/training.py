"""Two models trained to the end, by eager PyTorch and by dynoc from the same weights and batches: do they learn the same?

python examples/training.py digits     a convolutional network for scikit-learn's digits (30 epochs, 1,320 steps): accuracy
python examples/training.py language   a language model of characters (500 steps, on the help texts that Python brings): loss
python examples/training.py language --picture curve.svg   … and both curves as a picture

The digits are scikit-learn's, or, with `--data FILE`, rows of 64 pixels and the digit, separated by commas: the file
`optdigits.tes` of the UCI repository has the same 1,797 rows. `--steps N` ends after so many steps, `--wait` compiles before the
first step is made. The exit status is 1 if the two part: for the digits by more than half a percent of the test pictures, for
the language model by more than a hundredth of the mean loss of the last steps. Rounding alone makes the last digits differ.
"""

import argparse
import copy
import math
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import dynoc

LAST = 50  # steps whose mean is compared


# ---- the digits


class Digits(nn.Module):
    """Two convolutions with batch norms, and two layers behind them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in ((1, 16), (16, 32)))
        self.norms = nn.ModuleList([nn.BatchNorm2d(16), nn.BatchNorm2d(32)])
        self.hidden, self.out = nn.Linear(32 * 4, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norms[0](self.first(x))), 2)
        x = F.max_pool2d(F.gelu(self.norms[1](self.second(x))), 2)
        return self.out(F.dropout(torch.tanh(self.hidden(x.flatten(1))), 0.2, self.training))


def digits_of(path):
    """Pictures of 8 x 8 between 0 and 1, and what they show."""
    if path is not None:
        rows = np.loadtxt(path, delimiter=",")
        pixels, labels = rows[:, :64], rows[:, 64]
    else:
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            sys.exit("The digits are scikit-learn's: pip install scikit-learn, or give the file optdigits.tes by --data.")
        pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels, dtype=torch.int64)


class DigitsTask:
    """Training on four fifths of the pictures; the others are the test."""

    def __init__(self, options):
        self.x, self.y = digits_of(options.data)
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(0))
        self.test, self.train = order[: len(order) // 5], order[len(order) // 5 :]
        self.epoch = max(1, len(self.train) // 32)
        self.steps = options.steps or 30 * self.epoch
        self.model = Digits()

    def batch(self, i):
        epoch, at = divmod(i, self.epoch)
        order = torch.randperm(len(self.train), generator=torch.Generator().manual_seed(epoch + 1))
        rows = self.train[order[32 * at : 32 * at + 32]]
        return self.x[rows], self.y[rows]

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, label_smoothing=0.05)

    def verdict(self, models, losses):
        accuracies = []
        for name, (model, _) in models.items():
            model.eval()
            with torch.no_grad():
                right = (model(self.x[self.test]).argmax(1) == self.y[self.test]).sum().item()
            accuracies.append(right / len(self.test))
            print(f"{name:<8} {right} of {len(self.test)} test pictures right: {100 * accuracies[-1]:.2f} %")
        return abs(accuracies[0] - accuracies[1]) <= 0.005


# ---- the language model


class Block(nn.Module):
    """Attention to what came before, and two layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mix, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        return x + F.dropout(self.narrow(F.gelu(self.wide(self.norms[1](x)))), 0.1, self.training)


class Language(nn.Module):
    """A transformer over characters, whose first and last layer share their weights."""

    def __init__(self, characters, length=64, width=64, layers=2):
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)
        self.out.weight = self.characters.weight
        nn.init.normal_(self.out.weight, std=0.1)

    def forward(self, x):
        h = self.characters(x) + self.places(torch.arange(x.shape[1]))
        return self.out(self.norm(self.blocks(h)))


class LanguageTask:
    """Which character comes next in Python's help texts (or in the file that is given)?"""

    def __init__(self, options):
        if options.data is not None:
            with open(options.data, encoding="utf-8") as file:
                text = file.read()
        else:
            from pydoc_data.topics import topics

            text = "\n".join(topics[key] for key in sorted(topics))
        known = sorted(set(text))
        self.text = torch.tensor([known.index(c) for c in text])
        self.steps = options.steps or 500
        self.model = Language(len(known))

    def batch(self, i):
        starts = torch.randint(0, len(self.text) - 65, (16, 1), generator=torch.Generator().manual_seed(i))
        rows = self.text[starts + torch.arange(65)]
        return rows[:, :-1], rows[:, 1:]

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    def verdict(self, models, losses):
        means = []
        for name, found in losses.items():
            means.append(sum(found[-LAST:]) / len(found[-LAST:]))
            print(f"{name:<8} loss of the last {len(found[-LAST:])} steps: {means[-1]:.4f}")
        return abs(means[0] - means[1]) <= 0.01 * means[0]


# ---- training


def trained(task, model, call):
    """The loss of each step, and the seconds that they took."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=task.steps)
    torch.manual_seed(1)  # of dropout: the stream is eager's
    losses, began = [], time.perf_counter()
    for i in range(task.steps):
        optimiser.zero_grad()
        loss = task.loss(call, task.batch(i))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - began


def smoothed(losses, of=10):
    return [sum(losses[max(0, i - of) : i + 1]) / len(losses[max(0, i - of) : i + 1]) for i in range(len(losses))]


def picture(losses, path):
    """Both curves over the steps, eager's broad and dynoc's narrow on top of it, as SVG."""
    left, right, top, bottom = 60, 620, 40, 350
    high = math.ceil(max(max(each) for each in losses.values()))
    steps = max(len(each) for each in losses.values())

    def place(i, loss):
        return f"{left + (right - left) * i / max(1, steps - 1):.1f},{bottom - (bottom - top) * loss / high:.1f}"

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="640" height="400" fill="white"/>')
    for loss in range(high + 1):
        y = bottom - (bottom - top) * loss / high
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{loss}</text>')
    for i in range(0, steps + 1, max(1, steps // 5)):
        x = left + (right - left) * i / max(1, steps - 1)
        parts.append(f'<text x="{min(x, right):.1f}" y="{bottom + 18}" text-anchor="middle">{i}</text>')
    looks = {"eager": ("#888888", 6), "dynoc": ("#d62728", 1.5)}
    for row, (name, each) in enumerate(losses.items()):
        colour, width = looks[name]
        points = " ".join(place(i, loss) for i, loss in enumerate(smoothed(each)))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts.append(f'<text x="{right - 90}" y="{top + 24 + 18 * row}" fill="{colour}" font-weight="bold">{name}</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="24" text-anchor="middle" font-size="15">loss (mean of ten steps)</text>')
    parts.append(f'<text x="{(left + right) / 2}" y="388" text-anchor="middle">steps</text></svg>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description="Does a model learn the same under dynoc?")
    parser.add_argument("task", choices=("digits", "language"))
    parser.add_argument("--steps", type=int, help="end after so many steps")
    parser.add_argument("--data", help="a file of digits, or a text")
    parser.add_argument("--wait", action="store_true", help="compile before the first step is made")
    parser.add_argument("--picture", help="write the curves of the losses as SVG to this file")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    task = {"digits": DigitsTask, "language": LanguageTask}[options.task](options)
    twin = copy.deepcopy(task.model)
    models = {"eager": (task.model, task.model), "dynoc": (twin, dynoc.optimize(twin, wait=options.wait))}
    losses = {}
    for name, (model, call) in models.items():
        losses[name], seconds = trained(task, model, call)
        ends = f"loss {losses[name][0]:.4f} -> {losses[name][-1]:.4f}"
        print(f"{name:<8} {task.steps} steps in {seconds:.1f} s, {ends}", flush=True)
    off = [abs(a - b) / a for a, b in zip(losses["eager"], losses["dynoc"], strict=True)]
    print(f"losses differ by {max(off[:20]):.0e} of their value in the first 20 steps, by {max(off):.0e} at most")
    same = task.verdict(models, losses)
    if options.picture:
        picture(losses, options.picture)
    print("both learn the same" if same else "they DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
