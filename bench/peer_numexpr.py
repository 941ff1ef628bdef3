"""numexpr: expressions written by hand, with what it has no words for (slices, columns) done by NumPy before."""

import numexpr
import numpy as np
from forms import Form, Unable

VERSION = numexpr.__version__


def start(threads):
    numexpr.set_num_threads(threads)


def evaluate(text, **names):
    return numexpr.evaluate(text, local_dict=names, global_dict={})


def float32(**constants):
    """numexpr computes in float64 where a constant is written out."""
    return {name: np.float32(value) for name, value in constants.items()}


def cosine_sine(x):
    return evaluate("cos(x) + sin(x)", x=x)


def add(x, y):
    return evaluate("x + y", x=x, y=y)


TWELVE = "(((((x*2.0 + 1.0)*x - 0.5)*0.25 + x)*(((x*2.0 + 1.0)*x - 0.5)*0.25 + x) + 3.0) - x*0.125)*0.5 + x"


def twelve_operations(x):
    return evaluate(TWELVE, x=x)


def polynomial(x):
    text = "(0.125*x - 0.25)"
    for c in (0.5, -0.75, 1.0, -1.25, 1.5, -1.75, 2.0):
        text = f"({text}*x + {c})"
    return evaluate(text, x=x)


POLY = "t*(0.319381530 + t*(-0.356563782 + t*(1.781477937 + t*(-1.821255978 + t*1.330274429))))"


def normal_cdf(x):
    t = evaluate("1.0/(1.0 + 0.2316419*abs(x))", x=x)
    upper = evaluate(f"0.3989422804014327*exp(-0.5*x*x)*{POLY}", x=x, t=t)
    return evaluate("where(x >= 0.0, 1.0 - u, u)", x=x, u=upper)


def black_scholes(s, k, t, rate, v):
    d1 = evaluate("(log(s/k) + (rate + 0.5*v*v)*t)/(v*sqrt(t))", s=s, k=k, t=t, rate=rate, v=v)
    d2 = evaluate("d1 - v*sqrt(t)", d1=d1, v=v, t=t)
    discounted = evaluate("k*exp(-rate*t)", k=k, rate=rate, t=t)
    call = evaluate("s*a - d*b", s=s, a=normal_cdf(d1), d=discounted, b=normal_cdf(d2))
    return call, evaluate("call + d - s", call=call, d=discounted, s=s)


def clip_chain(x, low, high):
    names = float32(low=low, high=high, a=1.5, b=0.25, c=0.5, d=2.0)
    y = evaluate("where(x*a + b < low, low, where(x*a + b > high, high, x*a + b))", x=x, **names)
    y = evaluate("where(y*y - c < low, low, where(y*y - c > high, high, y*y - c))", y=y, **names)
    return evaluate("where(y*d - x < low, low, where(y*d - x > high, high, y*d - x))", x=x, y=y, **names)


def pairwise(a, b):
    columns = {f"{name}{i}": v for i in range(3) for name, v in (("a", a[:, None, i]), ("b", b[None, :, i]))}
    return evaluate("sqrt((a0 - b0)**2 + (a1 - b1)**2 + (a2 - b2)**2)", **columns)


def great_circle(lat1, lon1, lat2, lon2, radius):
    names = {"p": lat1, "q": lat2, "r": radius, "d": evaluate("b - a", a=lon1, b=lon2)}
    b = "(cos(p)*sin(q) - sin(p)*cos(q)*cos(d))"
    c = "(sin(p)*sin(q) + cos(p)*cos(q)*cos(d))"
    return evaluate(f"r*arctan2(sqrt((cos(q)*sin(d))**2 + {b}**2), {c})", **names)


def around(u):
    return {"c": u[1:-1, 1:-1], "n": u[:-2, 1:-1], "s": u[2:, 1:-1], "w": u[1:-1, :-2], "e": u[1:-1, 2:]}


def stencil_5(u):
    return evaluate("c + 0.1*(s + n + e + w - 4.0*c)", **around(u))


def stencil_9(u):
    corners = {"se": u[2:, 2:], "sw": u[2:, :-2], "ne": u[:-2, 2:], "nw": u[:-2, :-2]}
    return evaluate("(4.0*(s + n + e + w) + (se + sw + ne + nw) - 20.0*c)/6.0", **around(u), **corners)


def stencil_3d(u):
    names = around(u[:, :, 1:-1]) | {"f": u[1:-1, 1:-1, 2:], "b": u[1:-1, 1:-1, :-2]}
    return evaluate("c + 0.05*(s + n + e + w + f + b - 6.0*c)", **names)


def horizontal_diffusion(u):
    lap = evaluate("4.0*c - (s + n + e + w)", **around(u))
    flux = "where((p - q)*(v - w) > 0.0, 0.0, p - q)"
    x = evaluate(flux, p=lap[1:, 1:-1], q=lap[:-1, 1:-1], v=u[2:-1, 2:-2], w=u[1:-2, 2:-2])
    y = evaluate(flux, p=lap[1:-1, 1:], q=lap[1:-1, :-1], v=u[2:-2, 2:-1], w=u[2:-2, 1:-2])
    return evaluate("c - 0.1*(s - n + e - w)", c=u[2:-2, 2:-2], s=x[1:], n=x[:-1], e=y[:, 1:], w=y[:, :-1])


def gradient_magnitude(image):
    weights = float32(p=0.299, q=0.587, s=0.114)
    g = evaluate("p*r + q*g + s*b", r=image[:, :, 0], g=image[:, :, 1], b=image[:, :, 2], **weights)
    return evaluate("sqrt((e - w)*(e - w) + (s - n)*(s - n))", **around(g))


def complex_rotation(z, angle):
    return evaluate("z*(cos(a) + 1j*sin(a))", z=z, a=angle)


def mask_logic(x, y, m):
    return evaluate("(((x > -0.5) & (x < 1.5)) & m) | ((~m & (y >= x)) ^ (y < 0.0))", x=x, y=y, m=m)


def transposed_add(x, y):
    return evaluate("x + y", x=x, y=y.T)


def outer_products(x, y, u, v):
    return evaluate("x*y + u*v", x=x[:, None], y=y[None, :], u=u[:, None], v=v[None, :])


def monte_carlo_pi(x, y):
    return 4.0 * evaluate("sum(where(x*x + y*y <= 1.0, 1.0, 0.0))", x=x, y=y)[()] / x.size


def mandelbrot_step(z, c, count):
    stays = evaluate("real(z)*real(z) + imag(z)*imag(z) <= 4.0", z=z)
    return evaluate("where(m, z*z + c, z)", m=stays, z=z, c=c), evaluate("count + where(m, 1, 0)", count=count, m=stays)


FORMS = {
    "cos + sin, float32": cosine_sine,
    "cos + sin, float64": cosine_sine,
    "add": add,
    "twelve operations": twelve_operations,
    "polynomial": polynomial,
    "Black-Scholes": black_scholes,
    "clip chain": clip_chain,
    "pairwise distance": pairwise,
    "great-circle distance": great_circle,
    "5-point stencil": stencil_5,
    "9-point stencil": stencil_9,
    "3-D stencil": stencil_3d,
    "horizontal diffusion": horizontal_diffusion,
    "RGB to gradient magnitude": gradient_magnitude,
    "complex rotation": complex_rotation,
    "bool mask logic": mask_logic,
    "transposed add": transposed_add,
    "outer products": outer_products,
    "Monte Carlo pi": monte_carlo_pi,
    "Mandelbrot step": mandelbrot_step,
}


def form(kernel):
    if kernel.name not in FORMS:
        raise Unable("not an expression of elements")
    return Form(FORMS[kernel.name])
