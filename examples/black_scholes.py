"""Prices of European options by the Black-Scholes formula, for a million options at once.

The normal distribution function is the polynomial 26.2.17 of M. Abramowitz and I. A. Stegun, "Handbook of Mathematical
Functions" (1964); its absolute error is below 7.5e-8.
"""

import numpy as np

EXACT = False  # exp and log are within 4 ULP, not bit for bit NumPy's


def normal_cdf(x):
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = 0.3989422804014327 * np.exp(-0.5 * x * x) * poly
    return np.where(x >= 0.0, 1.0 - upper, upper)


def black_scholes(spot, strike, years, rate, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / root
    d2 = d1 - root
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = call + discounted - spot
    return call, put


def make_inputs(small=False):
    rng = np.random.default_rng(3)
    n = 53 if small else 1_000_000
    return rng.uniform(50.0, 150.0, n), rng.uniform(60.0, 140.0, n), rng.uniform(0.1, 3.0, n), 0.03, rng.uniform(0.1, 0.6, n)


FUNCTION = black_scholes


def main():
    call, put = black_scholes(*make_inputs())
    print(f"{call.size} options: mean call {call.mean():.4f}, mean put {put.mean():.4f}")


if __name__ == "__main__":
    main()
