"""A recurrent cell in plain PyTorch (LLTM: an LSTM without a forget gate), and the same cell around functions written in C++."""

import math

import torch
import torch.nn.functional as F


def cell(input, weights, bias, old_h, old_cell):
    gates = F.linear(torch.cat([old_h, input], dim=1), weights, bias).chunk(3, dim=1)
    input_gate, output_gate = torch.sigmoid(gates[0]), torch.sigmoid(gates[1])
    new_cell = old_cell + F.elu(gates[2]) * input_gate
    return torch.tanh(new_cell) * output_gate, new_cell


class LLTM(torch.nn.Module):
    """The cell as a module.

    Parameters
    ----------
    input_features, state_size : int
    function : callable
        `cell`, or another one that computes the same.
    """

    def __init__(self, input_features, state_size, function=cell):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.empty(3 * state_size, input_features + state_size))
        self.bias = torch.nn.Parameter(torch.empty(3 * state_size))
        for weight in self.parameters():
            weight.data.uniform_(-1 / math.sqrt(state_size), 1 / math.sqrt(state_size))
        self.function = function

    def forward(self, input, state):
        return self.function(input, self.weights, self.bias, *state)


def in_cpp(extension):
    """`cell` with forward and backward of the extension module (lltm.cpp)."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, weights, bias, old_h, old_cell):
            new_h, new_cell, *kept = extension.forward(input, weights, bias, old_h, old_cell)
            ctx.save_for_backward(*kept, new_cell, weights)
            return new_h, new_cell

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_h, grad_cell):
            return tuple(extension.backward(grad_h, grad_cell, *ctx.saved_tensors))

    return Function.apply
