"""Layer normalisation of the rows of a 1000 x 1000 array."""

import numpy as np

EXACT = False  # the row sums may be added in another order


def layer_norm(x, weight, bias, eps=1e-5):
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def make_inputs(small=False):
    rng = np.random.default_rng(6)
    n = 12 if small else 1000
    shape = ((n, n), (n,), (n,))
    return tuple(rng.standard_normal(s).astype(np.float32) for s in shape)


FUNCTION = layer_norm


def main():
    x, weight, bias = make_inputs()
    result = layer_norm(x, weight, bias)
    print(f"layer norm of {x.shape[0]} rows: mean {result.mean():.6f}, largest {result.max():.6f}")


if __name__ == "__main__":
    main()
