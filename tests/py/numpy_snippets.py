"""A hundred pieces of NumPy code of the kind people share: recipes, exercises, small numerical methods. Written for this test,
after the topics of NumPy's and SciPy's documentation. test_numpy_snippets.py runs them.

A snippet is a plain function with a maker of arguments, `make(rng, n)`: other numbers with each generator, other sizes with
each n. Nothing in here knows about dynoc.
"""

import numpy as np

SNIPPETS = []


class Snippet:
    def __init__(self, function, make, tol, sizes):
        self.function = function
        self.make = make
        self.tol = tol
        self.sizes = sizes

    def __repr__(self):
        return self.function.__name__


def snippet(make, tol="near", sizes=(12, 12, 17)):
    """make(rng, n): a tuple of arguments. tol: as in case.py. sizes: n of each of the successive calls."""

    def add(function):
        SNIPPETS.append(Snippet(function, make, tol, sizes))
        return function

    return add


def vector(rng, n):
    return (rng.normal(size=n),)


def positive(rng, n):
    return (rng.uniform(0.5, 4.0, n),)


def table(rng, n):
    return (rng.normal(size=(n, 4)),)


def image(rng, n):
    return (rng.uniform(0, 1, (n, n + 3)),)


def square(rng, n):
    a = rng.normal(size=(n, n))
    return (a @ a.T + n * np.eye(n),)


# ---- signals and series


@snippet(lambda rng, n: (rng.normal(size=n), 3))
def moving_average_by_cumsum(x, w):
    total = np.cumsum(x)
    total[w:] = total[w:] - total[:-w]
    return total[w - 1 :] / w


@snippet(lambda rng, n: (rng.normal(size=n), 4))
def moving_average_by_convolve(x, w):
    return np.convolve(x, np.ones(w) / w, mode="valid")


@snippet(lambda rng, n: (rng.normal(size=n), 5))
def rolling_maximum_by_windows(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w)
    return windows.max(axis=-1), windows.mean(axis=-1)


@snippet(lambda rng, n: (rng.normal(size=n), 4))
def rolling_windows_by_strides(x, w):
    step = x.strides[0]
    view = np.lib.stride_tricks.as_strided(x, shape=(x.size - w + 1, w), strides=(step, step))
    return view.std(axis=1)


@snippet(positive)
def log_returns(prices):
    return np.diff(np.log(prices))


@snippet(lambda rng, n: (rng.normal(0, 0.02, n),))
def cumulative_returns(r):
    return np.cumprod(1 + r) - 1


@snippet(positive)
def maximum_drawdown(prices):
    peak = np.maximum.accumulate(prices)
    return ((prices - peak) / peak).min()


@snippet(lambda rng, n: (rng.normal(size=n), 0.3))
def exponential_smoothing_by_weights(x, alpha):
    n = len(x)
    weights = (1 - alpha) ** np.arange(n)[::-1]
    return np.dot(weights, x) / weights.sum()


@snippet(lambda rng, n: (rng.normal(size=4 * n), 3))
def low_pass_by_fft(x, keep):
    spectrum = np.fft.rfft(x)
    spectrum[keep:] = 0
    return np.fft.irfft(spectrum, len(x))


@snippet(lambda rng, n: (rng.normal(size=2 * n), 0.01))
def power_spectrum(x, dt):
    amplitude = np.abs(np.fft.rfft(x * np.hanning(len(x)))) ** 2
    return np.fft.rfftfreq(len(x), dt), amplitude / len(x)


@snippet(vector)
def local_maxima(x):
    inner = x[1:-1]
    return np.flatnonzero((inner > x[:-2]) & (inner > x[2:])) + 1


@snippet(vector)
def trapezoid_integral(y):
    x = np.linspace(0, 1, len(y))
    return ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum(), np.trapezoid(y, x)


# ---- rows, columns, statistics


@snippet(table)
def normalise_rows(a):
    return a / np.linalg.norm(a, axis=1, keepdims=True)


@snippet(table)
def standardise_columns(a):
    return (a - a.mean(axis=0)) / a.std(axis=0, ddof=1)


@snippet(table)
def covariance_by_hand(a):
    centred = a - a.mean(axis=0)
    return centred.T @ centred / (len(a) - 1)


@snippet(table)
def correlation_matrix(a):
    return np.corrcoef(a, rowvar=False)


@snippet(table)
def principal_components(a):
    centred = a - a.mean(axis=0)
    u, s, vt = np.linalg.svd(centred, full_matrices=False)
    return centred @ vt[:2].T, s**2 / (len(a) - 1)


@snippet(table)
def whiten(a):
    c = a - a.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(c.T))
    return c @ vectors / np.sqrt(values)


@snippet(lambda rng, n: (rng.normal(size=n), 10))
def histogram_density(x, bins):
    counts, edges = np.histogram(x, bins=bins)
    return counts / counts.sum() / np.diff(edges)


@snippet(lambda rng, n: (rng.normal(size=n),))
def quantile_summary(x):
    return np.percentile(x, [5, 25, 50, 75, 95])


@snippet(lambda rng, n: (rng.normal(size=n),))
def outliers_by_interquartile_range(x):
    q1, q3 = np.quantile(x, [0.25, 0.75])
    reach = 1.5 * (q3 - q1)
    return (x < q1 - reach) | (x > q3 + reach)


@snippet(lambda rng, n: (rng.integers(0, 6, n),), tol="bits")
def rank_data(x):
    order = x.argsort(kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(x))
    return ranks


@snippet(lambda rng, n: (rng.integers(0, 5, n),), tol="bits")
def most_frequent_value(x):
    return np.bincount(x).argmax()


@snippet(lambda rng, n: (rng.integers(0, 5, n), rng.uniform(size=n)))
def group_means_by_bincount(labels, values):
    return np.bincount(labels, weights=values, minlength=5) / np.maximum(np.bincount(labels, minlength=5), 1)


@snippet(lambda rng, n: (rng.integers(0, 5, n), rng.uniform(size=n)))
def group_sums_by_add_at(labels, values):
    out = np.zeros(5)
    np.add.at(out, labels, values)
    return out


@snippet(lambda rng, n: (rng.integers(0, 5, n),), tol="bits")
def unique_with_counts(x):
    values, counts = np.unique(x, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return values[order], counts[order]


@snippet(lambda rng, n: (rng.normal(size=n), np.array([-1.0, 0.0, 1.0])), tol="bits")
def bin_by_searchsorted(x, edges):
    return np.searchsorted(edges, x)


@snippet(lambda rng, n: (rng.normal(size=n),))
def skewness_and_kurtosis(x):
    z = (x - x.mean()) / x.std()
    return (z**3).mean(), (z**4).mean() - 3


@snippet(lambda rng, n: (np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),))
def fill_missing_with_mean(x):
    x[np.isnan(x)] = np.nanmean(x)
    return x


@snippet(lambda rng, n: (np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),))
def interpolate_missing(x):
    known = ~np.isnan(x)
    at = np.arange(len(x))
    return np.interp(at, at[known], x[known])


@snippet(lambda rng, n: (np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),), tol="bits")
def forward_fill(x):
    at = np.where(np.isnan(x), 0, np.arange(len(x)))
    np.maximum.accumulate(at, out=at)
    return x[at]


# ---- distances and neighbours


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(5, 3))))
def pairwise_distances(a, b):
    difference = a[:, None, :] - b[None, :, :]
    return np.sqrt((difference**2).sum(axis=-1))


@snippet(lambda rng, n: (rng.normal(size=(n, 3)),))
def squared_distances_by_gram(a):
    squares = (a * a).sum(axis=1)
    d = squares[:, np.newaxis] + squares[np.newaxis, :] - 2 * a @ a.T
    np.maximum(d, 0, out=d)
    return d


@snippet(lambda rng, n: (rng.normal(size=(n, 6)), rng.normal(size=6)))
def cosine_similarity(a, q):
    return a @ q / (np.linalg.norm(a, axis=1) * np.linalg.norm(q))


@snippet(lambda rng, n: (rng.normal(size=(n, 2)), rng.normal(size=2)), tol="near")
def nearest_point(points, p):
    i = np.argmin(((points - p) ** 2).sum(axis=1))
    return points[i]


@snippet(lambda rng, n: (rng.normal(size=(n, 2)), rng.normal(size=2), 3), tol="bits")
def k_nearest_indices(points, p, k):
    d = np.hypot(points[:, 0] - p[0], points[:, 1] - p[1])
    return np.argsort(d)[:k]


@snippet(lambda rng, n: (rng.normal(size=(3 * n, 2)), rng.normal(size=(3, 2))))
def k_means_step(points, centres):
    d = ((points[:, None] - centres[None]) ** 2).sum(-1)
    label = d.argmin(axis=1)
    member = label[:, None] == np.arange(len(centres))
    return label, (member[:, :, None] * points[:, None]).sum(0) / np.maximum(member.sum(0), 1)[:, None]


# ---- selecting


@snippet(vector, tol="bits")
def positive_part_by_mask(x):
    return x[x > 0]


@snippet(vector, tol="bits")
def zero_the_negatives(x):
    x[x < 0] = 0
    return x


@snippet(vector)
def clip_and_scale_in_place(x):
    x *= 2.0
    np.clip(x, -1, 1, out=x)
    x -= x.mean()
    return (x * x).sum()


@snippet(lambda rng, n: (rng.normal(size=n), 3), tol="bits")
def top_k_by_argsort(x, k):
    best = np.argsort(x)[-k:][::-1]
    return best, x[best]


@snippet(lambda rng, n: (rng.permutation(n), 3), tol="bits")
def top_k_by_partition(x, k):
    return np.sort(np.partition(x, -k)[-k:])


@snippet(lambda rng, n: (rng.integers(0, 4, n),), tol="bits")
def one_hot_by_eye(labels):
    return np.eye(4)[labels]


@snippet(lambda rng, n: (rng.integers(0, 4, n),), tol="bits")
def one_hot_by_assignment(labels):
    out = np.zeros((labels.size, 4), dtype=np.float32)
    out[np.arange(labels.size), labels] = 1
    return out


@snippet(lambda rng, n: (rng.normal(size=n),))
def piecewise_function(x):
    return np.where(x < -1, -1.0, np.where(x > 1, np.sqrt(np.abs(x)), x**3))


@snippet(lambda rng, n: (rng.uniform(0, 100, n),), tol="bits")
def grade_by_select(score):
    return np.select([score >= 90, score >= 75, score >= 50], [1, 2, 3], default=5)


@snippet(lambda rng, n: (rng.normal(size=n),))
def piecewise_by_functions(x):
    return np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v**2])


@snippet(lambda rng, n: (rng.integers(0, 3, n),), tol="bits")
def run_length_encode(x):
    starts = np.concatenate(([0], np.flatnonzero(x[1:] != x[:-1]) + 1))
    lengths = np.diff(np.append(starts, len(x)))
    return x[starts], lengths


@snippet(lambda rng, n: (rng.normal(size=(n, 5)), rng.integers(0, 5, n)), tol="bits")
def pick_one_in_each_row(a, column):
    return a[np.arange(len(a)), column], np.take_along_axis(a, column[:, None], axis=1)


@snippet(lambda rng, n: (rng.integers(0, 9, (n, 3)),), tol="bits")
def sort_rows_by_column(a):
    return a[a[:, 1].argsort(kind="stable")]


@snippet(lambda rng, n: (rng.integers(0, 9, n), rng.integers(0, 9, n)), tol="bits")
def set_operations(a, b):
    return np.intersect1d(a, b), np.setdiff1d(a, b), np.isin(a, b)


# ---- images and grids


@snippet(lambda rng, n: (rng.integers(0, 256, (n, n, 3)).astype(np.uint8),))
def grey_from_rgb(rgb):
    return (rgb @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)


@snippet(lambda rng, n: (rng.integers(0, 256, (n, n)).astype(np.uint8), 1.4))
def gamma_correct(image, gamma):
    return (255 * (image / 255.0) ** (1 / gamma)).clip(0, 255).astype(np.uint8)


@snippet(image)
def box_blur_by_slices(a):
    out = a.copy()
    out[1:-1, 1:-1] = (
        (a[:-2, :-2] + a[:-2, 1:-1] + a[:-2, 2:])
        + (a[1:-1, :-2] + a[1:-1, 1:-1] + a[1:-1, 2:])
        + (a[2:, :-2] + a[2:, 1:-1] + a[2:, 2:])
    ) / 9
    return out


@snippet(image)
def sobel_magnitude(a):
    gx = a[:-2, 2:] + 2 * a[1:-1, 2:] + a[2:, 2:] - a[:-2, :-2] - 2 * a[1:-1, :-2] - a[2:, :-2]
    gy = a[2:, :-2] + 2 * a[2:, 1:-1] + a[2:, 2:] - a[:-2, :-2] - 2 * a[:-2, 1:-1] - a[:-2, 2:]
    return np.hypot(gx, gy)


@snippet(lambda rng, n: (rng.uniform(size=(n, n)), rng.uniform(size=(3, 3))))
def filter_with_padding(a, kernel):
    padded = np.pad(a, 1, mode="edge")
    out = np.zeros_like(a)
    for i in range(3):
        for j in range(3):
            out += kernel[i, j] * padded[i : i + a.shape[0], j : j + a.shape[1]]
    return out


@snippet(lambda rng, n: (rng.integers(0, 2, (n, n)),), tol="bits")
def game_of_life_step(board):
    neighbours = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(int)


@snippet(lambda rng, n: (rng.integers(0, 2, (n, n)),), tol="bits")
def game_of_life_by_slices(z):
    n = z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2] + z[1:-1, 2:] + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
    birth = (n == 3) & (z[1:-1, 1:-1] == 0)
    survive = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
    z[...] = 0
    z[1:-1, 1:-1][birth | survive] = 1
    return z


@snippet(lambda rng, n: (rng.uniform(size=(n, n)), 2 * n - 3))
def bilinear_resize(a, m):
    at = np.linspace(0, a.shape[0] - 1, m)
    low = np.minimum(at.astype(int), a.shape[0] - 2)
    f = at - low
    rows = a[low] * (1 - f)[:, None] + a[low + 1] * f[:, None]
    return rows[:, low] * (1 - f) + rows[:, low + 1] * f


@snippet(lambda rng, n: (rng.uniform(size=(2 * n, 2 * n)),))
def downsample_by_block_means(a):
    h, w = a.shape
    return a.reshape(h // 2, 2, w // 2, 2).mean(axis=(1, 3))


@snippet(lambda rng, n: (n, 2.0))
def gaussian_kernel(n, sigma):
    axis = np.arange(n) - (n - 1) / 2
    xx, yy = np.meshgrid(axis, axis)
    kernel = np.exp(-(xx**2 + yy**2) / (2 * sigma**2))
    return kernel / kernel.sum()


@snippet(lambda rng, n: (n,), tol="bits")
def checkerboard(n):
    z = np.zeros((n, n), dtype=int)
    z[1::2, ::2] = 1
    z[::2, 1::2] = 1
    return z


@snippet(lambda rng, n: (n, n / 3), tol="bits")
def circular_mask(n, radius):
    y, x = np.ogrid[:n, :n]
    return (x - n // 2) ** 2 + (y - n // 2) ** 2 <= radius**2


@snippet(lambda rng, n: ((rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))) * 0.2, rng.normal(size=(n, n)) * (0.3 + 0.3j)))
def mandelbrot_step(z, c):
    inside = np.abs(z) < 2
    z[inside] = z[inside] ** 2 + c[inside]
    return z, inside.sum()


@snippet(lambda rng, n: (rng.uniform(size=(n, n)), 0.1))
def heat_step(u, k):
    u[1:-1, 1:-1] += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@snippet(lambda rng, n: (rng.uniform(size=(n, n)), rng.uniform(size=(n, n))))
def gray_scott_step(u, v):
    def laplacian(z):
        return np.roll(z, 1, 0) + np.roll(z, -1, 0) + np.roll(z, 1, 1) + np.roll(z, -1, 1) - 4 * z

    uvv = u * v * v
    return u + 0.16 * laplacian(u) - uvv + 0.06 * (1 - u), v + 0.08 * laplacian(v) + uvv - 0.122 * v


@snippet(lambda rng, n: (rng.uniform(size=(n, n)),))
def summed_area_table(a):
    s = np.zeros((a.shape[0] + 1, a.shape[1] + 1))
    s[1:, 1:] = a.cumsum(axis=0).cumsum(axis=1)
    return s[2:, 2:] - s[:-2, 2:] - s[2:, :-2] + s[:-2, :-2]


# ---- linear algebra


@snippet(lambda rng, n: (square(rng, n)[0], rng.normal(size=n)))
def solve_and_residual(a, b):
    x = np.linalg.solve(a, b)
    return x, np.linalg.norm(a @ x - b) < 1e-9


@snippet(lambda rng, n: (rng.normal(size=n), rng.normal(size=n)))
def line_by_least_squares(x, y):
    a = np.vstack([x, np.ones(len(x))]).T
    (slope, intercept), *rest = np.linalg.lstsq(a, y, rcond=None)
    return slope, intercept


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=n), 0.1))
def ridge_regression(x, y, strength):
    return np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ y)


@snippet(lambda rng, n: (np.linspace(-1, 1, n), rng.normal(size=n)))
def polynomial_fit(x, y):
    coefficients = np.polyfit(x, y, 2)
    return coefficients, np.polyval(coefficients, x) - y


@snippet(lambda rng, n: (rng.normal(size=n), np.array([1.0, -2.0, 0.5, 3.0])))
def horner(x, coefficients):
    result = np.zeros_like(x)
    for c in coefficients:
        result = result * x + c
    return result


@snippet(lambda rng, n: (rng.normal(size=(n, 4)),))
def gram_schmidt(a):
    q = np.zeros_like(a)
    for j in range(a.shape[1]):
        v = a[:, j] - q[:, :j] @ (q[:, :j].T @ a[:, j])
        q[:, j] = v / np.sqrt(v @ v)
    return q


@snippet(lambda rng, n: (square(rng, n)[0], rng.normal(size=n)))
def power_iteration(a, v):
    for _ in range(5):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v, v @ a @ v


@snippet(lambda rng, n: (rng.normal(size=(n, n)), 2))
def low_rank_by_svd(a, k):
    u, s, vt = np.linalg.svd(a)
    return (u[:, :k] * s[:k]) @ vt[:k]


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)))
def einsum_contractions(a, b, c):
    return np.einsum("ij,jk,k->i", a, b, c), np.einsum("ij,ij->i", a, a)


@snippet(lambda rng, n: (rng.normal(size=(n, 3, 3)), rng.normal(size=(n, 3))))
def batched_matrix_vector(m, v):
    return (m @ v[..., None])[..., 0], np.linalg.det(m)


@snippet(square)
def cholesky_sample(c):
    low = np.linalg.cholesky(c)
    return low @ np.ones(len(c)), 2 * np.log(np.diag(low)).sum()


@snippet(lambda rng, n: (n,), tol="bits")
def second_difference_matrix(n):
    return np.diag(np.full(n, 2.0)) - np.eye(n, k=1) - np.eye(n, k=-1)


@snippet(lambda rng, n: (rng.normal(size=(n, n)),), tol="bits")
def symmetric_from_upper(a):
    upper = np.triu(a, 1)
    return upper + upper.T, a[np.triu_indices(len(a), k=1)]


@snippet(lambda rng, n: (rng.normal(size=(n, 2)), rng.normal(size=(n, 3))), tol="bits")
def block_matrix(a, b):
    return np.block([[a, b], [np.zeros((2, 2)), np.ones((2, 3))]])


@snippet(lambda rng, n: (rng.normal(size=(n, 2)), 0.7))
def rotate_points(points, angle):
    c, s = np.cos(angle), np.sin(angle)
    return points @ np.array([[c, -s], [s, c]]).T


@snippet(lambda rng, n: (rng.normal(size=n) + 1j * rng.normal(size=n), 0.7))
def complex_rotation(z, angle):
    w = z * np.exp(1j * angle)
    return np.abs(w), np.angle(w), w.real - w.imag


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(n, 3))))
def cross_product_and_area(a, b):
    c = np.cross(a, b)
    return c, 0.5 * np.linalg.norm(c, axis=-1)


# ---- learning


@snippet(table)
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@snippet(table)
def log_sum_exp(x):
    top = np.max(x, axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.integers(0, 2, n).astype(float), rng.normal(size=3)))
def logistic_gradient(x, y, w):
    p = 1 / (1 + np.exp(-x @ w))
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return loss, x.T @ (p - y) / len(y)


@snippet(lambda rng, n: (rng.normal(size=(n, 4)), rng.integers(0, 4, n)))
def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean()


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=(8, 2))))
def two_layer_network(x, w1, b1, w2):
    hidden = np.maximum(x @ w1 + b1, 0)
    return np.tanh(hidden @ w2)


@snippet(lambda rng, n: (rng.normal(size=n), rng.normal(size=n), np.zeros(n), np.zeros(n), 3))
def adam_update(w, g, m, v, t):
    m[:] = 0.9 * m + 0.1 * g
    v[:] = 0.999 * v + 0.001 * g * g
    w -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


@snippet(lambda rng, n: (rng.integers(0, 3, n), rng.integers(0, 3, n)), tol="bits")
def confusion_matrix(truth, guess):
    m = np.zeros((3, 3), dtype=int)
    np.add.at(m, (truth, guess), 1)
    return m, np.trace(m) / m.sum()


# ---- simulation and calculus


@snippet(lambda rng, n: (50 * n, 7))
def estimate_pi(n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random(n), rng.random(n)
    return 4 * np.mean(x * x + y * y <= 1)


@snippet(lambda rng, n: (np.random.default_rng(n), 100.0, 0.05, 0.2, n))
def brownian_paths(rng, s0, mu, sigma, n):
    dt = 1 / n
    steps = (mu - 0.5 * sigma**2) * dt + sigma * np.sqrt(dt) * rng.standard_normal((4, n))
    return s0 * np.exp(np.cumsum(steps, axis=1))


@snippet(lambda rng, n: (np.random.default_rng(n), rng.normal(size=n)))
def bootstrap_means(rng, x):
    picks = rng.integers(0, len(x), (20, len(x)))
    return np.percentile(x[picks].mean(axis=1), [2.5, 97.5])


@snippet(lambda rng, n: (rng.normal(size=(n, 3)), rng.uniform(1, 2, n)))
def gravity(positions, mass):
    d = positions[None, :, :] - positions[:, None, :]
    r3 = ((d**2).sum(-1) + 1e-3) ** 1.5
    return (d * (mass / r3)[..., None]).sum(axis=1)


def pendulum(state):
    angle, speed = state
    return np.array([speed, -9.81 * np.sin(angle)])


@snippet(lambda rng, n: (rng.normal(size=(2, n)), 0.01))
def runge_kutta_step(y, h):
    k1 = pendulum(y)
    k2 = pendulum(y + h / 2 * k1)
    k3 = pendulum(y + h / 2 * k2)
    k4 = pendulum(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@snippet(lambda rng, n: (rng.normal(size=(n, n)), 0.5))
def gradient_and_divergence(f, h):
    gy, gx = np.gradient(f, h)
    return gx, gy, np.gradient(gx, h, axis=1) + np.gradient(gy, h, axis=0)


@snippet(lambda rng, n: (rng.uniform(0, 2, n), np.linspace(0, 2, 9)))
def tabulate_and_interpolate(x, grid):
    return np.interp(x, grid, np.sin(grid)), np.sin(x)


@snippet(lambda rng, n: (30 + n,), tol="bits")
def sieve_of_eratosthenes(n):
    prime = np.ones(n, dtype=bool)
    prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if prime[i]:
            prime[i * i :: i] = False
    return np.nonzero(prime)[0]


@snippet(lambda rng, n: (rng.normal(size=(n, 2)),))
def polygon_area(vertices):
    x, y = vertices.T
    return 0.5 * np.abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
