"""Training programs as people write them, for the tests of gradients: each makes what a step needs and gives (step, modules).

A program takes two functions: what becomes of a module, and of a function that makes a whole step; in eager the identity.
`step(i)` makes step i, and gives what is compared: numbers and tensors; so are the modules' parameters, buffers and gradients.
"""

import contextlib
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


def draw(step):
    return torch.Generator().manual_seed(1000 + step)


def normal(step, *shape):
    return torch.randn(*shape, generator=draw(step))


def labels(step, n, *shape):
    return torch.randint(0, n, shape, generator=draw(step + 500))


def supervised(module, call, optimiser, batch, loss=F.cross_entropy, after=None):
    """A step of the usual kind, outside of what dynoc is given."""

    def step(i):
        x, y = batch(i)
        optimiser.zero_grad()
        value = loss(call(x), y)
        value.backward()
        if after is not None:
            after()
        optimiser.step()
        return value.item()

    return step, [module]


def classes(n=16, width=8):
    return lambda i: (normal(i, n, width), labels(i, 4, n))


def perceptron(width=32):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))


# ---- the ten models

@program
def mlp(model_, step_):
    m = perceptron()
    return supervised(m, model_(m), torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True), classes())


class Lltm(nn.Module):
    def __init__(self, inputs=8, states=16):
        super().__init__()
        self.states = states
        self.weights = nn.Parameter(torch.empty(3 * states, inputs + states))
        self.bias = nn.Parameter(torch.empty(3 * states))
        for weight in self.parameters():
            weight.data.uniform_(-1 / math.sqrt(states), 1 / math.sqrt(states))

    def forward(self, x, state):
        old_h, old_cell = state
        gates = F.linear(torch.cat([old_h, x], dim=1), self.weights, self.bias).chunk(3, dim=1)
        input_gate, output_gate = torch.sigmoid(gates[0]), torch.sigmoid(gates[1])
        new_cell = old_cell + F.elu(gates[2]) * input_gate
        return torch.tanh(new_cell) * output_gate, new_cell


@program
def lltm(model_, step_):
    cell, head = Lltm(), nn.Linear(16, 4)
    call, optimiser = model_(cell), torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

    def step(i):
        h, c = torch.zeros(5, 16), torch.zeros(5, 16)
        optimiser.zero_grad()
        for t in range(4):
            h, c = call(normal(10 * i + t, 5, 8), (h, c))
        loss = F.cross_entropy(head(h), labels(i, 4, 5))
        loss.backward()
        optimiser.step()
        return loss.item()

    return step, [cell, head]


class Residual(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(Residual(4, 4), Residual(4, 8, 2))
        self.drop, self.head = nn.Dropout(0.3), nn.Linear(8, 4)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.head(self.drop(x.mean((2, 3))))


@program
def convolutional(model_, step_):
    m = ConvNet()
    optimiser = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    return supervised(m, model_(m), optimiser, lambda i: (normal(i, 6, 1, 8, 8), labels(i, 4, 6)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dropout(self.out(y.transpose(1, 2).contiguous().view(b, t, c)))


class Layer(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.ln_1, self.attention, self.ln_2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary=17, width=16, layers=2, block=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.layers, self.ln = nn.ModuleList(Layer(width) for _ in range(layers)), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, tokens, targets=None):
        places = torch.arange(0, tokens.size(1), dtype=torch.long)
        x = self.wte(tokens) + self.wpe(places)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.ln(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)


@program
def language(model_, step_):
    """Shared weights, warm-up and cosine decay, clipping, decay for matrices alone."""
    m = Gpt()
    call = model_(m)
    decays = [p for p in m.parameters() if p.dim() >= 2]
    others = [p for p in m.parameters() if p.dim() < 2]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    rate = lambda i: min(1, (i + 1) / 5) * 0.5 * (1 + math.cos(i / 20 * math.pi))  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)

    def step(i):
        tokens = labels(i, 17, 3, 10)
        optimiser.zero_grad(set_to_none=True)
        _, loss = call(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        return loss.item(), norm.item()

    return step, [m]


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.mean, self.spread = nn.Linear(20, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 20)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.mean(h), self.spread(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 20))
        z = self.reparameterize(mu, logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


def vae_loss(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.view(-1, 20), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


@program
def vae(model_, step_):
    m = Vae()
    call, optimiser = model_(m), torch.optim.Adam(m.parameters(), lr=1e-3)

    def step(i):
        x = torch.rand(7, 4, 5, generator=draw(i))
        optimiser.zero_grad()
        recon, mu, logvar = call(x)
        loss = vae_loss(recon, x, mu, logvar)
        loss.backward()
        optimiser.step()
        return loss.item(), recon

    return step, [m]


@program
def vae_step(model_, step_):
    m = Vae()
    optimiser = torch.optim.RMSprop(m.parameters(), lr=1e-3)

    @step_
    def train(x):
        optimiser.zero_grad()
        recon, mu, logvar = m(x)
        loss = vae_loss(recon, x, mu, logvar)
        loss.backward()
        optimiser.step()
        return loss.item()

    return lambda i: train(torch.rand(7, 4, 5, generator=draw(i))), [m]


@program
def gan(model_, step_):
    g = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 8), nn.Tanh())
    d = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2, inplace=True), nn.Dropout(0.2), nn.Linear(16, 1), nn.Sigmoid())
    fast_g, fast_d, criterion = model_(g), model_(d), nn.BCELoss()
    og, od = (torch.optim.Adam(m.parameters(), lr=2e-3, betas=(0.5, 0.999)) for m in (g, d))

    def step(i):
        real, noise = normal(i, 6, 8), normal(i + 99, 6, 4)
        d.zero_grad()
        err_real = criterion(fast_d(real).view(-1), torch.full((6,), 1.0))
        err_real.backward()
        fake = fast_g(noise)
        err_fake = criterion(fast_d(fake.detach()).view(-1), torch.zeros(6))
        err_fake.backward()
        od.step()
        g.zero_grad()
        err_g = criterion(fast_d(fake).view(-1), torch.ones(6))
        err_g.backward()
        og.step()
        return err_real.item(), err_fake.item(), err_g.item()

    return step, [g, d]


@program
def gradient_penalty(model_, step_):
    """A critic whose loss has a gradient in it."""
    d = nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    call, optimiser = model_(d), torch.optim.Adam(d.parameters(), lr=1e-2)

    def step(i):
        real, fake = normal(i, 5, 6), normal(i + 50, 5, 6) * 2
        mixed = (0.3 * real + 0.7 * fake).requires_grad_(True)
        score = call(mixed)
        (gradient,) = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        loss = call(fake).mean() - call(real).mean() + 10 * penalty
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item(), penalty.item()

    return step, [d]


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def double(a, b):
            return nn.Sequential(
                nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            )  # fmt: skip

        self.inc, self.down = double(1, 4), nn.Sequential(nn.MaxPool2d(2), double(4, 8))
        self.up, self.conv, self.out = nn.ConvTranspose2d(8, 4, 2, stride=2), double(8, 4), nn.Conv2d(4, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.up(self.down(x1))
        dy, dx = x1.size(2) - x2.size(2), x1.size(3) - x2.size(3)
        x2 = F.pad(x2, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(self.conv(torch.cat([x1, x2], dim=1)))


def dice(scores, target):
    p = torch.sigmoid(scores)
    return 1 - (2 * (p * target).sum((1, 2, 3)) + 1) / ((p + target).sum((1, 2, 3)) + 1)


@program
def unet(model_, step_):
    m = UNet()
    optimiser = torch.optim.RMSprop(m.parameters(), lr=1e-3, momentum=0.9)
    return supervised(
        m, model_(m), optimiser, lambda i: (normal(i, 2, 1, 9, 8), (normal(i + 7, 2, 1, 9, 8) > 0).float()),
        lambda s, t: F.binary_cross_entropy_with_logits(s, t.to(s.dtype)) + dice(s, t).mean(),
    )  # fmt: skip


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.attention = nn.Linear(5, 8), nn.Linear(8, 4), nn.Parameter(torch.randn(16) * 0.1)

    def gather(self, h, source, target, n):
        e = F.leaky_relu(torch.cat([h[source], h[target]], 1) @ self.attention, 0.2).exp()
        total = torch.zeros(n).index_add_(0, target, e)
        return torch.zeros(n, h.shape[1]).index_add(0, target, h[source] * (e / total[target]).unsqueeze(1))

    def forward(self, x, edges):
        source, target = edges
        h = F.elu(self.gather(self.first(x), source, target, x.shape[0]))
        sums = torch.zeros_like(h).scatter_add_(0, target.unsqueeze(1).expand(-1, 8), h[source])
        degree = torch.bincount(target, minlength=x.shape[0]).clamp(min=1).unsqueeze(1)
        return F.log_softmax(self.second(h + sums / degree), dim=1)


@program
def graph_network(model_, step_):
    m = GraphNet()
    call, optimiser = model_(m), torch.optim.Adagrad(m.parameters(), lr=0.05)
    edges, x, y = torch.stack([labels(1, 12, 40), labels(2, 12, 40)]), normal(3, 12, 5), labels(4, 4, 12)
    mask = torch.arange(12) % 3 != 0

    def step(i):
        optimiser.zero_grad()
        out = call(x, edges)
        loss = F.nll_loss(out[mask], y[mask])
        loss.backward()
        optimiser.step()
        return loss.item(), out.argmax(1)

    return step, [m]


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, omega):
        ctx.save_for_backward(x)
        ctx.omega = omega
        return torch.sin(omega * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.omega * torch.cos(ctx.omega * x), None


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = Sine.apply(layer(x), 5.0)
        return self.layers[-1](x)


@program
def siren(model_, step_):
    m = Siren()
    axis = torch.linspace(-1, 1, 8)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    target = torch.sin(3 * grid[:, :1]) * grid[:, 1:]
    return supervised(m, model_(m), torch.optim.Adam(m.parameters(), lr=1e-3), lambda i: (grid, target), F.mse_loss)


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(20, 4, mode="sum") for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(4 + 6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, dense, offsets, places):
        x = self.bottom(dense)
        ly = [table(p, o) for table, p, o in zip(self.tables, places, offsets, strict=True)]
        t = torch.cat([x, *ly], dim=1).view(x.shape[0], -1, x.shape[1])
        z = torch.bmm(t, t.transpose(1, 2))
        li = torch.tensor([i for i in range(4) for j in range(i)])
        lj = torch.tensor([j for i in range(4) for j in range(i)])
        return self.top(torch.cat([x, z[:, li, lj]], dim=1))


@program
def dlrm(model_, step_):
    m = Dlrm()
    call, optimiser = model_(m), torch.optim.SGD(m.parameters(), lr=0.1)

    def step(i):
        dense, y = normal(i, 5, 6), (normal(i + 3, 5, 1) > 0).to(torch.get_default_dtype())
        offsets, places = [torch.arange(0, 10, 2)] * 3, [labels(i + k, 20, 10) for k in range(3)]
        loss = F.binary_cross_entropy(call(dense, offsets, places), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return step, [m]


# ---- the whole step inside

def whole(make_optimiser, model=perceptron):
    def make(model_, step_):
        m = model()
        optimiser = make_optimiser(m)

        @step_
        def train(x, y):
            optimiser.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            optimiser.step()
            return loss

        return lambda i: train(*classes()(i)).item(), [m]

    return make


OPTIMISERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=0.1),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01),
    "amsgrad": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, amsgrad=True, foreach=False),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.1),
    "adam_fused": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, fused=True),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.01, foreach=False),
    "adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=0.05),
    "adamax": lambda m: torch.optim.Adamax(m.parameters(), lr=0.01),
    "nadam": lambda m: torch.optim.NAdam(m.parameters(), lr=0.01),
}
PROGRAMS |= {f"whole_{name}": whole(make) for name, make in OPTIMISERS.items()}


@program
def whole_lbfgs(model_, step_):
    m = perceptron(8)
    optimiser = torch.optim.LBFGS(m.parameters(), lr=0.5, max_iter=4, history_size=5)
    x, y = classes()(0)

    @step_
    def train():
        def closure():
            optimiser.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            return loss

        return optimiser.step(closure)

    return lambda i: train().item(), [m]


@program
def hand_written_descent(model_, step_):
    """Parameters changed in place under no_grad, as the tutorial does."""
    w, b = nn.Parameter(normal(1, 8, 4) * 0.1), nn.Parameter(torch.zeros(4))
    holder = nn.ParameterList([w, b])

    @step_
    def train(x, y, rate):
        loss = F.cross_entropy(x @ w + b, y)
        loss.backward()
        with torch.no_grad():
            w.sub_(rate * w.grad)
            b -= rate * b.grad
            w.grad.zero_()
            b.grad = None
        return loss

    def train_unbound(x, y, rate):
        loss = F.cross_entropy(x @ holder[0] + holder[1], y)
        loss.backward()
        with torch.no_grad():
            for p in holder:
                p -= rate * p.grad
                p.grad = None
        return loss

    other = step_(train_unbound)
    return lambda i: (other(*classes()(i), 0.1 / (1 + i)).item(),), [holder]


@program
def grad_inside(model_, step_):
    m = perceptron()

    @step_
    def train(x, y, rate):
        loss = F.cross_entropy(m(x), y)
        gradients = torch.autograd.grad(loss, list(m.parameters()))
        with torch.no_grad():
            for p, g in zip(m.parameters(), gradients, strict=True):
                p.add_(g, alpha=-rate)
        return loss

    return lambda i: train(*classes()(i), 0.1 * 0.9**i).item(), [m]


@program
def accumulates(model_, step_):
    """Four batches to a step, in sizes that differ, by a scheduler that knows of the loss."""
    m = perceptron()
    call, optimiser = model_(m), torch.optim.AdamW(m.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, patience=1, factor=0.5)

    def step(i):
        total = 0.0
        for k in range(4):
            x, y = classes(3 + (i + k) % 5)(4 * i + k)
            loss = F.cross_entropy(call(x), y) / 4
            loss.backward()
            total += loss.item()
        optimiser.step()
        optimiser.zero_grad(set_to_none=i % 2 == 0)
        schedule.step(total)
        return total, optimiser.param_groups[0]["lr"]

    return step, [m]


# ---- what autograd is asked for besides

def halve(p):
    p.grad.mul_(0.5)


@program
def hooks(model_, step_):
    m = perceptron()
    seen = []
    m[0].register_forward_hook(lambda module, args, out: out * 1.5)
    m[2].register_forward_pre_hook(lambda module, args: (args[0] + 0.1,))
    m[2].register_full_backward_hook(lambda module, gi, go: seen.append(go[0].sum().item()))
    m[0].weight.register_hook(lambda g: g * 2)
    m[4].bias.register_post_accumulate_grad_hook(halve)
    step, modules = supervised(m, model_(m), torch.optim.SGD(m.parameters(), lr=0.1), classes())

    def both(i):
        seen.clear()
        return step(i), list(seen)

    return both, modules


@program
def activations_kept(model_, step_):
    """retain_grad on what the function gives, and two backward passes of one graph."""
    a, b = nn.Linear(8, 16), nn.Linear(16, 4)
    holder = nn.ModuleList([a, b])

    @step_
    def forward(x):
        h = torch.tanh(a(x))
        return h, b(h * h.sigmoid())

    optimiser = torch.optim.SGD(holder.parameters(), lr=0.1)

    def step(i):
        x, y = classes()(i)
        x.requires_grad_()
        h, out = forward(x)
        h.retain_grad()
        loss = F.cross_entropy(out, y)
        optimiser.zero_grad()
        loss.backward(retain_graph=True)
        first = h.grad.clone()
        (h**2).mean().backward()
        optimiser.step()
        return loss.item(), first, h.grad, x.grad

    return step, [holder]


@program
def modes(model_, step_):
    """no_grad, enable_grad and detach inside."""
    m, teacher = perceptron(), perceptron()
    optimiser = torch.optim.Adam(m.parameters(), lr=0.01)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.m, self.teacher = m, teacher

        def forward(self, x):
            with torch.no_grad():
                soft = (self.teacher(x) / 2).softmax(1)
                with torch.enable_grad():
                    weight = (x.detach() * self.m[0].bias[:8]).sigmoid().mean()
            out = self.m(x)
            stopped = out.detach()
            return out, soft, weight, (out - stopped.mean(0)).pow(2).mean()

    both = Both()
    call = model_(both)

    def step(i):
        x, y = classes()(i)
        out, soft, weight, spread = call(x)
        loss = F.cross_entropy(out, y) + F.kl_div(out.log_softmax(1), soft, reduction="batchmean") + weight + 0.1 * spread
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item(), soft, spread.item()

    return step, [both]


@program
def checkpoints(model_, step_):
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.2)) for _ in range(3))
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            for k, block in enumerate(self.blocks):
                x = x + checkpoint(block, x, use_reentrant=k == 1)
            return self.head(x)

    m = Deep()
    batch = classes()
    optimiser = torch.optim.SGD(m.parameters(), lr=0.1)
    return supervised(m, model_(m), optimiser, lambda i: (batch(i)[0].requires_grad_(), batch(i)[1]))


@program
def autocast(model_, step_):
    m = perceptron()
    call, optimiser = model_(m), torch.optim.SGD(m.parameters(), lr=0.1)

    def step(i):
        x, y = classes()(i)
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = call(x)
            loss = F.cross_entropy(out.float(), y)
        loss.backward()
        optimiser.step()
        return loss.item(), out

    return step, [m]


@program
def autocast_inside(model_, step_):
    m = perceptron()
    optimiser = torch.optim.SGD(m.parameters(), lr=0.1)

    @step_
    def train(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(m(x).float(), y)
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return lambda i: train(*classes()(i)).item(), [m]


@program
def half_weights(model_, step_):
    m = perceptron().to(torch.bfloat16)
    batch = classes()
    optimiser = torch.optim.SGD(m.parameters(), lr=0.05)
    return supervised(m, model_(m), optimiser, lambda i: (batch(i)[0].bfloat16(), batch(i)[1]))


@program
def changes_in_place(model_, step_):
    class Changes(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)
            self.register_buffer("seen", torch.zeros(16))
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            h = self.a(x)
            h += 0.5
            h = F.relu_(h)
            h = h * 2
            h.mul_(0.5).add_(x.mean())
            h[:, 0] = 1.0
            h[:, 1:3] *= 0.5
            with torch.no_grad():
                self.seen.mul_(0.9).add_(h.mean(0), alpha=0.1)
            self.calls += 1
            out = torch.zeros(x.shape[0], 4)
            out.copy_(self.b(h))
            out[out < -0.5] = 0
            return torch.sigmoid_(out.clone()) + out.masked_fill_(out > 1, 0)

    m = Changes()
    return supervised(m, model_(m), torch.optim.SGD(m.parameters(), lr=0.1), classes())


@program
def frozen_in_turns(model_, step_):
    """requires_grad_ toggled, one layer frozen for good, and eval in between."""
    first = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))
    m = nn.Sequential(*first, nn.Linear(16, 16), nn.ELU(), nn.Linear(16, 4))
    m[4].weight.requires_grad_(False)
    call, optimiser = model_(m), torch.optim.Adam(m.parameters(), lr=0.01)

    def step(i):
        x, y = classes()(i)
        m[0].requires_grad_(i % 3 != 1)
        optimiser.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        optimiser.step()
        m.eval()
        with torch.no_grad():
            checked = call(x)
        m.train()
        return loss.item(), checked

    return step, [m]


@program
def loads_and_copies(model_, step_):
    """state_dict saved and loaded between steps, deep copies, an average of weights, a parameter that is replaced."""
    m = perceptron()
    average = copy.deepcopy(m)
    for p in average.parameters():
        p.requires_grad_(False)
    call, optimiser = model_(m), torch.optim.SGD(m.parameters(), lr=0.1)
    averaged, saved = model_(average), {}

    def step(i):
        x, y = classes()(i)
        if i == 5:
            saved.update(copy.deepcopy(m.state_dict()))
        if i == 9:
            m.load_state_dict(saved)
        if i == 12:
            m[2].weight = nn.Parameter(m[2].weight.detach() * 0.5)
        if i == 14:
            m[0].weight.data = m[0].weight.data.clone() * 0.9
        optimiser.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for p, q in zip(average.parameters(), m.parameters(), strict=True):
                p.lerp_(q, 0.1)
        twin = copy.deepcopy(m)
        return loss.item(), averaged(x), twin(x).detach()

    return step, [m, average]


@program
def recurrent(model_, step_):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.lstm = nn.Embedding(11, 8, padding_idx=0), nn.LSTM(8, 8, batch_first=True)
            self.gru = nn.GRUCell(8, 8)
            self.head = nn.Linear(8, 11)

        def forward(self, tokens):
            out, (h, _) = self.lstm(self.table(tokens))
            state = h[0]
            for t in range(tokens.shape[1]):
                state = self.gru(out[:, t], state)
            return self.head(state)

    m = Recurrent()
    optimiser = torch.optim.Adam(m.parameters(), lr=0.01)
    return supervised(m, model_(m), optimiser, lambda i: (labels(i, 11, 4, 6), labels(i + 1, 11, 4)))


@program
def regression(model_, step_):
    """Losses as modules, weighted, with penalties on parameters."""
    m = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Hardswish(), nn.Linear(16, 1))
    criteria = [nn.SmoothL1Loss(), nn.MSELoss(), nn.HuberLoss(delta=0.5), nn.L1Loss()]
    optimiser = torch.optim.Adam(m.parameters(), lr=0.01)

    @step_
    def value(x, y, k):
        out = m(x).squeeze(-1)
        penalty = sum(p.pow(2).sum() for p in m.parameters())
        return criteria[k](out, y) + 1e-3 * penalty + 1e-3 * sum(p.abs().sum() for p in m.parameters() if p.dim() > 1)

    def step(i):
        x = normal(i, 9, 8)
        optimiser.zero_grad(set_to_none=False)
        loss = value(x, x.pow(2).sum(1) / 8, i % 4)
        loss.backward()
        nn.utils.clip_grad_value_(m.parameters(), 0.05)
        optimiser.step()
        return loss.item()

    return step, [m]


@program
def contrastive(model_, step_):
    m = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))
    temperature = nn.Parameter(torch.tensor(0.5))
    call = model_(m)
    optimiser = torch.optim.SGD([{"params": m.parameters()}, {"params": [temperature], "lr": 0.01}], lr=0.05, momentum=0.9)

    @step_
    def info_nce(a, b, t):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        scores = a @ b.T / t
        target = torch.arange(a.shape[0])
        return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2

    def step(i):
        x = normal(i, 7, 8)
        optimiser.zero_grad()
        loss = info_nce(call(x), call(x + 0.1 * normal(i + 60, 7, 8)), temperature)
        loss.backward()
        optimiser.step()
        return loss.item(), temperature.item()

    return step, [m]


@program
def policy_gradient(model_, step_):
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    act, judge = model_(actor), model_(critic)
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)

    def step(i):
        states, rewards = normal(i, 12, 4), normal(i + 5, 12)
        distribution = torch.distributions.Categorical(logits=act(states))
        actions = distribution.sample()
        values = judge(states).squeeze(-1)
        advantage = rewards - values.detach()
        loss = -(distribution.log_prob(actions) * advantage).mean() + F.mse_loss(values, rewards)
        loss = loss - 0.01 * distribution.entropy().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item(), actions

    return step, [actor, critic]


@program
def functional(model_, step_):
    """functional_call, and torch.func around a module that dynoc has."""
    m = perceptron(8)
    call = model_(m)
    optimiser = torch.optim.SGD(m.parameters(), lr=0.1)

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(m, parameters, (x,)), y)

    def step(i):
        x, y = classes(5)(i)
        parameters = {k: p.detach() for k, p in m.named_parameters()}
        each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))(parameters, x.unsqueeze(1), y.unsqueeze(1))
        optimiser.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        optimiser.step()
        return loss.item(), each["0.weight"]

    return step, [m]


@program
def anomalies(model_, step_):
    m = perceptron()
    step, modules = supervised(m, model_(m), torch.optim.SGD(m.parameters(), lr=0.1), classes())

    def sometimes(i):
        with torch.autograd.detect_anomaly(check_nan=True) if i % 4 == 3 else contextlib.nullcontext():
            return step(i)

    return sometimes, modules
