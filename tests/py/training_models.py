"""Small models and what they are trained on, for the tests of gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.c(torch.tanh(self.b(F.relu(self.a(x)))))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3), nn.Linear(8 * 3 * 3, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.a(x)), 2)
        return self.c(F.elu(self.b(x)).flatten(1))


class Lltm(nn.Module):
    """The cell of PyTorch's tutorial on extensions, rolled over three steps."""

    def __init__(self, inputs=8, states=16):
        super().__init__()
        self.states = states
        self.weight = nn.Parameter(torch.randn(3 * states, inputs + states) * 0.1)
        self.bias = nn.Parameter(torch.randn(3 * states) * 0.1)
        self.head = nn.Linear(states, 4)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], self.states)
        for _ in range(3):
            gates = F.linear(torch.cat([h, x], dim=1), self.weight, self.bias)
            i, o, candidate = gates.chunk(3, dim=1)
            c = c + F.elu(candidate) * torch.sigmoid(i)
            h = torch.tanh(c) * torch.sigmoid(o)
        return self.head(h)


class Block(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        scores = (q @ k.transpose(-1, -2)) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Parameter(torch.randn(12, 16) * 0.1)
        self.blocks, self.out = nn.ModuleList([Block(), Block()]), nn.Linear(16, 11)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def draw(step):
    return torch.Generator().manual_seed(step)


def classes(*shape):
    def batch(step):
        return torch.randn(*shape, generator=draw(step)), torch.randint(0, 4, shape[:1], generator=draw(step))

    return batch


def sequences(step):
    tokens = torch.randint(0, 11, (4, 10), generator=draw(step))
    return tokens[:, :-1], tokens[:, 1:]


MODELS = {
    "perceptron": (Perceptron, classes(16, 8)),
    "convolutions": (Convolutions, classes(6, 1, 10, 10)),
    "lltm": (Lltm, classes(6, 8)),
    "language": (Language, sequences),
}


def losses(model, call, batches, steps=20):
    """The loss of each step of training, by stochastic gradient descent; `call` is the model, or what dynoc makes of it."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = []
    for step in range(steps):
        x, y = batches(step)
        optimiser.zero_grad()
        scores = call(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        loss.backward()
        optimiser.step()
        seen.append(loss.item())
    return seen
