"""Small programs of the kinds that people run, plain and under dynoc.enable(). run.py's groups `programs` and `bodies` run them.

    python bench/small_programs.py NAME plain|enabled

runs one and prints what it took. PROGRAMS are whole workloads whose arrays are small or whose work is partly scalar: CPU seconds
of the process, and of the compilers that it started. BODIES are bodies of loops over elements: nanoseconds of CPU time a trip
after the first second.
"""

import math
import resource
import sys
import time

import numpy as np

# ---- a genetic algorithm of two objectives, with non-dominated sorting


def two_objectives(x):
    first = x[:, 0]
    g = 1.0 + 9.0 * x[:, 1:].mean(axis=1)
    return np.column_stack([first, g * (1.0 - np.sqrt(first / g))])


def non_dominated_ranks(f):
    not_worse = (f[:, None, :] <= f[None, :, :]).all(axis=2)
    better = (f[:, None, :] < f[None, :, :]).any(axis=2)
    dominates = not_worse & better
    ranks = np.full(len(f), -1)
    left = dominates.sum(axis=0)
    rank = 0
    while (ranks < 0).any():
        front = np.flatnonzero((left == 0) & (ranks < 0))
        ranks[front] = rank
        left = left - dominates[front].sum(axis=0)
        rank += 1
    return ranks


def crowding(f):
    distance = np.zeros(len(f))
    for column in f.T:
        order = np.argsort(column, kind="stable")
        span = column[order[-1]] - column[order[0]]
        distance[order[0]] = distance[order[-1]] = np.inf
        if span > 0:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / span
    return distance


class Population:
    def __init__(self, x):
        self.x = x
        self.f = two_objectives(x)
        self.ranks = non_dominated_ranks(self.f)
        self.distance = np.empty(len(x))
        for rank in range(self.ranks.max() + 1):
            front = np.flatnonzero(self.ranks == rank)
            self.distance[front] = crowding(self.f[front])

    def better_of(self, i, j):
        if self.ranks[i] != self.ranks[j]:
            return i if self.ranks[i] < self.ranks[j] else j
        return i if self.distance[i] > self.distance[j] else j

    def survivors(self, n):
        order = np.lexsort((-self.distance, self.ranks))
        return Population(self.x[order[:n]])


def crossed(a, b, rng, eta=15.0):
    u = rng.random(a.shape)
    beta = np.where(u <= 0.5, (2 * u) ** (1 / (eta + 1)), (1 / (2 * (1 - u))) ** (1 / (eta + 1)))
    return np.clip(0.5 * ((1 + beta) * a + (1 - beta) * b), 0.0, 1.0)


def mutated(x, rng, eta=20.0):
    u = rng.random(x.shape)
    step = np.where(u < 0.5, (2 * u) ** (1 / (eta + 1)) - 1, 1 - (2 * (1 - u)) ** (1 / (eta + 1)))
    return np.clip(np.where(rng.random(x.shape) < 1 / x.shape[1], x + step, x), 0.0, 1.0)


def genetic_algorithm():
    rng = np.random.default_rng(1)
    now = Population(rng.random((60, 12)))
    for _ in range(500):
        pairs = rng.integers(0, 60, size=(60, 4))
        mothers = [now.better_of(a, b) for a, b, _, _ in pairs]
        fathers = [now.better_of(c, d) for _, _, c, d in pairs]
        children = mutated(crossed(now.x[mothers], now.x[fathers], rng), rng)
        now = Population(np.concatenate([now.x, children])).survivors(60)
    return float(now.f.sum())


# ---- an ensemble sampler with stretch moves


class Gaussian:
    def __init__(self, size, rng):
        a = rng.standard_normal((size, size))
        self.mean = rng.standard_normal(size)
        self.inverse = np.linalg.inv(a @ a.T + size * np.eye(size))

    def __call__(self, x):
        if np.any(np.abs(x) > 50.0):
            return -np.inf
        d = x - self.mean
        return -0.5 * np.dot(d, np.dot(self.inverse, d))


class Ensemble:
    def __init__(self, log_probability, start, rng):
        self.log_probability = log_probability
        self.x = start
        self.values = self.evaluate(start)
        self.rng = rng
        self.accepted = np.zeros(len(start), dtype=int)

    def evaluate(self, x):
        return np.array([float(self.log_probability(row)) for row in x])

    def move(self, chosen, others, a=2.0):
        n, size = len(chosen), self.x.shape[1]
        z = ((a - 1.0) * self.rng.random(n) + 1.0) ** 2 / a
        partners = self.x[others][self.rng.integers(len(others), size=n)]
        proposal = partners - (partners - self.x[chosen]) * z[:, None]
        values = self.evaluate(proposal)
        for i, (row, factor) in enumerate(zip(chosen, (size - 1.0) * np.log(z))):
            if factor + values[i] - self.values[row] > np.log(self.rng.random()):
                self.x[row] = proposal[i]
                self.values[row] = values[i]
                self.accepted[row] += 1

    def step(self):
        order = self.rng.permutation(len(self.x))
        half = len(order) // 2
        self.move(order[:half], order[half:])
        self.move(order[half:], order[:half])


def ensemble_sampler():
    rng = np.random.default_rng(2)
    sampler = Ensemble(Gaussian(5, rng), rng.standard_normal((32, 5)), rng)
    chain = []
    for _ in range(2500):
        sampler.step()
        chain.append(sampler.x.copy())
    return float(np.mean(chain))


# ---- covariance adaptation


def rosenbrock(x):
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


class CovarianceAdaptation:
    def __init__(self, mean, sigma, rng):
        n = len(mean)
        self.mean, self.sigma, self.rng, self.n = mean, sigma, rng, n
        self.size = 4 + int(3 * math.log(n))
        weights = math.log(self.size / 2 + 0.5) - np.log(np.arange(1, self.size // 2 + 1))
        self.weights = weights / weights.sum()
        self.effective = 1.0 / np.sum(self.weights**2)
        self.c_sigma = (self.effective + 2) / (n + self.effective + 5)
        self.damping = 1 + self.c_sigma + 2 * max(0.0, math.sqrt((self.effective - 1) / (n + 1)) - 1)
        self.c_path = (4 + self.effective / n) / (n + 4 + 2 * self.effective / n)
        self.c_one = 2 / ((n + 1.3) ** 2 + self.effective)
        self.c_many = min(1 - self.c_one, 2 * (self.effective - 2 + 1 / self.effective) / ((n + 2) ** 2 + self.effective))
        self.expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self.path, self.path_sigma, self.covariance = np.zeros(n), np.zeros(n), np.eye(n)
        self.decompose()

    def decompose(self):
        squares, self.axes = np.linalg.eigh(self.covariance)
        self.lengths = np.sqrt(np.maximum(squares, 1e-20))

    def ask(self):
        return [self.mean + self.sigma * self.step() for _ in range(self.size)]

    def step(self):
        return self.axes @ (self.lengths * self.rng.standard_normal(self.n))

    def longer(self, path, step, c):
        return (1 - c) * path + math.sqrt(c * (2 - c) * self.effective) * step

    def tell(self, points, values):
        best = sorted(range(len(values)), key=lambda i: values[i])[: len(self.weights)]
        steps = np.array([(points[i] - self.mean) / self.sigma for i in best])
        mean_step = self.weights @ steps
        self.mean = self.mean + self.sigma * mean_step
        whitened = self.axes @ ((self.axes.T @ mean_step) / self.lengths)
        self.path_sigma = self.longer(self.path_sigma, whitened, self.c_sigma)
        self.path = self.longer(self.path, mean_step, self.c_path)
        self.covariance = (1 - self.c_one - self.c_many) * self.covariance + self.c_one * np.outer(self.path, self.path)
        for weight, step in zip(self.weights, steps):
            self.covariance = self.covariance + self.c_many * weight * np.outer(step, step)
        self.sigma *= math.exp((np.linalg.norm(self.path_sigma) / self.expected - 1) * self.c_sigma / self.damping)
        self.decompose()


def covariance_adaptation():
    search = CovarianceAdaptation(np.full(10, 0.5), 0.3, np.random.default_rng(3))
    for _ in range(3500):
        points = search.ask()
        search.tell(points, [rosenbrock(x) for x in points])
    return rosenbrock(search.mean)


# ---- the likelihood of GARCH(1, 1): a recurrence over elements


def variances(parameters, e, h):
    o, a, b = parameters
    h[0] = e.var()
    for t in range(1, len(e)):
        h[t] = o + a * e[t - 1] ** 2 + b * h[t - 1]
    return h


def garch_likelihood(parameters, e, h):
    h = variances(parameters, e, h)
    return 0.5 * np.sum(np.log(2 * np.pi) + np.log(h) + e**2 / h)


def garch():
    rng = np.random.default_rng(4)
    e = rng.standard_normal(2500)
    h = np.empty_like(e)
    at, best = np.array([0.1, 0.1, 0.8]), np.inf
    for _ in range(600):
        trial = np.clip(at + 0.02 * rng.standard_normal(3), 1e-3, 0.95)
        value = garch_likelihood(trial, e, h)
        if value < best:
            at, best = trial, value
    return float(best)


# ---- a least-squares fit with named parameters


class Parameter:
    def __init__(self, name, value, low=-np.inf, high=np.inf, vary=True):
        self.name, self.low, self.high, self.vary = name, low, high, vary
        self.value = value

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, new):
        self._value = min(max(new, self.low), self.high)


class Parameters(dict):
    def add(self, name, value, **more):
        self[name] = Parameter(name, value, **more)

    def valuesdict(self):
        return {name: p.value for name, p in self.items()}

    def update_from(self, vector):
        for p, value in zip([p for p in self.values() if p.vary], vector):
            p.value = float(value)


def peaks(x, values):
    total = values["slope"] * x + values["offset"]
    for prefix in ("one_", "two_"):
        z = (x - values[prefix + "centre"]) / values[prefix + "width"]
        total = total + values[prefix + "height"] * np.exp(-0.5 * z * z)
    return total


class Fit:
    def __init__(self, model, parameters, x, y):
        self.model, self.parameters, self.x, self.y = model, parameters, x, y

    def residual(self, vector):
        self.parameters.update_from(vector)
        return self.model(self.x, self.parameters.valuesdict()) - self.y

    def jacobian(self, vector, r):
        columns = []
        for i, value in enumerate(vector):
            step = 1e-7 * max(1.0, abs(value))
            moved = vector.copy()
            moved[i] += step
            columns.append((self.residual(moved) - r) / step)
        return np.array(columns).T

    def run(self, rounds):
        vector = np.array([p.value for p in self.parameters.values() if p.vary])
        damping, r = 1e-2, self.residual(vector)
        for _ in range(rounds):
            j = self.jacobian(vector, r)
            a, g = j.T @ j, j.T @ r
            trial = vector - np.linalg.solve(a + damping * np.diag(np.diag(a) + 1e-12), g)
            new = self.residual(trial)
            if new @ new < r @ r:
                vector, r, damping = trial, new, damping * 0.3
            else:
                damping *= 2.0
        return r @ r


def least_squares():
    rng = np.random.default_rng(5)
    x = np.linspace(0.0, 10.0, 200)
    total = 0.0
    for _ in range(120):
        truth = {"slope": 0.1, "offset": 1.0, "one_centre": 3.0, "one_width": 0.5, "one_height": 2.0}
        truth |= {"two_centre": 6.0, "two_width": 0.9, "two_height": 3.0}
        y = peaks(x, truth) + 0.05 * rng.standard_normal(x.size)
        parameters = Parameters()
        for name, value in truth.items():
            parameters.add(name, value * rng.uniform(0.85, 1.15), low=0.0, vary=name != "offset")
        total += Fit(peaks, parameters, x, y).run(25)
    return float(total)


# ---- an LSTM whose derivative a tape computes


class Traced:
    __slots__ = ("value", "parents", "grad")

    def __init__(self, value, parents=()):
        self.value, self.parents, self.grad = value, parents, None

    def __add__(self, other):
        other = other if isinstance(other, Traced) else Traced(other)
        return Traced(self.value + other.value, ((self, lambda g: reduced(g, self)), (other, lambda g: reduced(g, other))))

    def __mul__(self, other):
        a, b = self.value, other.value
        return Traced(a * b, ((self, lambda g: reduced(g * b, self)), (other, lambda g: reduced(g * a, other))))

    def __matmul__(self, other):
        a, b = self.value, other.value
        return Traced(a @ b, ((self, lambda g: g @ b.T), (other, lambda g: a.T @ g)))

    def __getitem__(self, key):
        def back(g):
            whole = np.zeros_like(self.value)
            whole[key] = g
            return whole

        return Traced(self.value[key], ((self, back),))


def reduced(g, of):
    while g.ndim > of.value.ndim:
        g = g.sum(axis=0)
    return g


def tanh(x):
    y = np.tanh(x.value)
    return Traced(y, ((x, lambda g: g * (1.0 - y * y)),))


def sigmoid(x):
    y = 1.0 / (1.0 + np.exp(-x.value))
    return Traced(y, ((x, lambda g: g * y * (1.0 - y)),))


def squared_error(x, target):
    d = x.value - target
    return Traced((d * d).sum(), ((x, lambda g: 2.0 * g * d),))


def backward(end):
    order, seen, stack = [], set(), [(end, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent, _ in node.parents)
    end.grad = np.float64(1.0)
    for node in reversed(order):
        for parent, back in node.parents:
            g = back(node.grad)
            parent.grad = g if parent.grad is None else parent.grad + g


def lstm_loss(weights, xs, ys, size):
    w, u, b, out = (Traced(value) for value in weights)
    h, c = Traced(np.zeros((xs.shape[1], size))), Traced(np.zeros((xs.shape[1], size)))
    loss = Traced(np.float64(0.0))
    for x, y in zip(xs, ys):
        gates = Traced(x) @ w + h @ u + b
        i, f = sigmoid(gates[:, :size]), sigmoid(gates[:, size : 2 * size])
        o, g = sigmoid(gates[:, 2 * size : 3 * size]), tanh(gates[:, 3 * size :])
        c = f * c + i * g
        h = o * tanh(c)
        loss = loss + squared_error(h @ out, y)
    backward(loss)
    return float(loss.value), [p.grad for p in (w, u, b, out)]


def lstm():
    rng = np.random.default_rng(6)
    size, inputs = 16, 8
    shapes = ((inputs, 4 * size), (size, 4 * size), (4 * size,), (size, 1))
    weights = [0.1 * rng.standard_normal(shape) for shape in shapes]
    xs, ys = rng.standard_normal((20, 10, inputs)), rng.standard_normal((20, 10, 1))
    for _ in range(200):
        loss, grads = lstm_loss(weights, xs, ys, size)
        weights = [p - 1e-4 * g for p, g in zip(weights, grads)]
    return loss


# ---- lattice-Boltzmann steps on nine velocities

VELOCITIES = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)


def equilibrium(density, ux, uy):
    result = np.empty((*density.shape, 9))
    squares = 1.5 * (ux**2 + uy**2)
    for i, (vx, vy) in enumerate(VELOCITIES):
        along = 3.0 * (vx * ux + vy * uy)
        result[:, :, i] = WEIGHTS[i] * density * (1.0 + along + 0.5 * along**2 - squares)
    return result


def lattice_step(f, wall, tau):
    for i, (vx, vy) in enumerate(VELOCITIES):
        f[:, :, i] = np.roll(np.roll(f[:, :, i], vx, axis=1), vy, axis=0)
    bounced = f[wall][:, [0, 3, 4, 1, 2, 7, 8, 5, 6]]
    density = f.sum(axis=2)
    ux = (f * VELOCITIES[:, 0]).sum(axis=2) / density
    uy = (f * VELOCITIES[:, 1]).sum(axis=2) / density
    f = f + (equilibrium(density, ux, uy) - f) / tau
    f[wall] = bounced
    return f


def lattice_boltzmann():
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:60, 0:160]
    wall = (x - 40) ** 2 + (y - 30) ** 2 < 64
    f = equilibrium(np.ones((60, 160)), np.full((60, 160), 0.1), 0.01 * rng.standard_normal((60, 160)))
    for _ in range(250):
        f = lattice_step(f, wall, 0.6)
    return float(f.sum())


PROGRAMS = (
    genetic_algorithm,
    ensemble_sampler,
    covariance_adaptation,
    garch,
    least_squares,
    lstm,
    lattice_boltzmann,
)

# ---- bodies of loops over elements


def sum_of_elements(e, a, h):
    s = 0.0
    for i in range(len(e)):
        s += e[i]
    return s


def comparison_of_elements(e, a, h):
    n = 0
    for i in range(len(e)):
        if a[i] < e[i]:
            n += 1
    return n


def recurrence(e, a, h):
    o, w, b = 0.1, 0.1, 0.8
    for t in range(1, len(e)):
        h[t] = o + w * e[t - 1] ** 2 + b * h[t - 1]
    return h


def between(x, low, high):
    return low < x and x < high


def function_of_two_comparisons(e, a, h):
    n = 0
    for x in e:
        n += bool(between(x, a[0], a[1]))
    return n


BODIES = (sum_of_elements, comparison_of_elements, recurrence, function_of_two_comparisons)
TRIPS = 20_000


def a_trip(body):
    """Nanoseconds of CPU time a trip: the median of one second of calls, after one second of calls."""
    rng = np.random.default_rng(8)
    arguments = rng.standard_normal(TRIPS), np.sort(rng.standard_normal(TRIPS)), np.ones(TRIPS)
    stop = time.process_time() + 1.0
    while time.process_time() < stop:
        body(*arguments)
    taken = []
    while sum(taken) < 1.0:
        start = time.process_time()
        body(*arguments)
        taken.append(time.process_time() - start)
    return float(np.median(taken)) / TRIPS * 1e9


def main(name, how):
    import dynoc  # both ways: objects that are there make the garbage collector's first rounds longer

    if how == "enabled":
        dynoc.enable()
    for body in BODIES:
        if body.__name__ == name:
            print(a_trip(body))
    for program in PROGRAMS:
        if program.__name__ == name:
            start = time.process_time()
            program()
            own, compilers = time.process_time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            print(own, compilers.ru_utime + compilers.ru_stime)


if __name__ == "__main__":
    main(*sys.argv[1:])
