"""A picture filter: binomial blur, then the magnitude of the Sobel gradient, both as sums of shifted slices.

The picture is scikit-image's photograph where that package is installed, else one that is drawn here: discs and bars of
different brightness on a ramp, with grain.
"""

import numpy as np

EXACT = True  # arithmetic and the square root round as NumPy's do


def blur(p):
    rows = (p[:-4] + 4.0 * p[1:-3] + 6.0 * p[2:-2] + 4.0 * p[3:-1] + p[4:]) / 16.0
    return (rows[:, :-4] + 4.0 * rows[:, 1:-3] + 6.0 * rows[:, 2:-2] + 4.0 * rows[:, 3:-1] + rows[:, 4:]) / 16.0


def edges(picture):
    p = blur(picture)
    gx = (p[:-2, 2:] + 2.0 * p[1:-1, 2:] + p[2:, 2:]) - (p[:-2, :-2] + 2.0 * p[1:-1, :-2] + p[2:, :-2])
    gy = (p[2:, :-2] + 2.0 * p[2:, 1:-1] + p[2:, 2:]) - (p[:-2, :-2] + 2.0 * p[:-2, 1:-1] + p[:-2, 2:])
    return np.minimum(np.sqrt(gx * gx + gy * gy), 255.0)


def draw_picture(n):
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:n, 0:n] / n
    picture = 60.0 + 80.0 * x
    for cx, cy, radius, level in ((0.3, 0.3, 0.18, 220.0), (0.7, 0.4, 0.12, 30.0), (0.5, 0.75, 0.2, 170.0)):
        picture = np.where((x - cx) ** 2 + (y - cy) ** 2 < radius**2, level, picture)
    picture = np.where((np.abs(y - 0.55) < 0.02) & (x > 0.1), 250.0, picture)
    return (picture + rng.normal(0.0, 4.0, (n, n))).clip(0.0, 255.0).astype(np.float32)


def load_picture():
    try:
        from skimage import data
    except ImportError:
        return draw_picture(1024)
    return data.camera().astype(np.float32)


def make_inputs(small=False):
    return (draw_picture(24) if small else load_picture(),)


FUNCTION = edges


def main():
    (picture,) = make_inputs()
    result = edges(picture)
    print(f"{picture.shape[0]} x {picture.shape[1]} picture: {(result > 60.0).mean():.2%} of it are edges")


if __name__ == "__main__":
    main()
