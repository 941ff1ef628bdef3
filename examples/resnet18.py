"""ResNet-18 in plain PyTorch with random weights: convolutions are PyTorch's own calls, what stands between them is fused.

Needs PyTorch. Pictures of 224 x 224, or smaller ones: python examples/resnet18.py 64
"""

import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import dynoc


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.norm2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Block(64, 64, 1), Block(64, 64, 1)]
    for inside in (64, 128, 256):
        blocks += [Block(inside, 2 * inside, 2), Block(2 * inside, 2 * inside, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()


def milliseconds(fn, x):
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        fn(x)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main():
    torch.manual_seed(0)
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 224
    model = resnet18()
    fast = dynoc.optimize(model, wait=True, fullgraph=True)
    with torch.no_grad():
        for batch in (2, 3):
            x = torch.randn(batch, 3, side, side)
            torch.testing.assert_close(fast(x), model(x))
        times = milliseconds(model, x), milliseconds(fast, x)
    print(f"{len(fast.entries)} graph; the same as without dynoc")
    print("ResNet-18, 3 pictures of {0} x {0}: {1:.1f} ms as it is, {2:.1f} ms by dynoc".format(side, *times))


if __name__ == "__main__":
    main()
