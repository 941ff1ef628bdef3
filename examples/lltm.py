"""A recurrent cell in plain PyTorch (LLTM: an LSTM without a forget gate): one product, and the rest of it as one fused kernel.

Needs PyTorch. Prints the guards and the generated code too: python examples/lltm.py --code
"""

import math
import sys
import time

import torch
import torch.nn.functional as F

import dynoc


class LLTM(torch.nn.Module):
    def __init__(self, input_features, state_size):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.empty(3 * state_size, input_features + state_size))
        self.bias = torch.nn.Parameter(torch.empty(3 * state_size))
        for weight in self.parameters():
            weight.data.uniform_(-1 / math.sqrt(state_size), 1 / math.sqrt(state_size))

    def forward(self, input, state):
        old_h, old_cell = state
        gates = F.linear(torch.cat([old_h, input], dim=1), self.weights, self.bias).chunk(3, dim=1)
        input_gate, output_gate = torch.sigmoid(gates[0]), torch.sigmoid(gates[1])
        new_cell = old_cell + F.elu(gates[2]) * input_gate
        return torch.tanh(new_cell) * output_gate, new_cell


def microseconds(fn, *args):
    best = math.inf
    for _ in range(200):
        start = time.perf_counter()
        fn(*args)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    torch.manual_seed(1)
    cell = LLTM(32, 128).eval()
    fast = dynoc.optimize(lambda x, state: cell(x, state), wait=True, fullgraph=True)
    x, state = torch.randn(16, 32), (torch.randn(16, 128), torch.randn(16, 128))
    with torch.no_grad():
        for got, want in zip(fast(x, state) + fast(x, state), cell(x, state) * 2, strict=True):
            torch.testing.assert_close(got, want)
        times = microseconds(cell, x, state), microseconds(fast, x, state)
        print("LLTM, 16 x 32 x 128: {:.0f} us as it is, {:.0f} us by dynoc".format(*times))
    if "--code" in sys.argv:
        print("\n".join(fast.entries[0].guards), fast.entries[0].graph, fast.source(), sep="\n\n")


if __name__ == "__main__":
    main()
