"""Time against size as a picture: SVG, both axes logarithmic, a line for each peer."""

import math
from xml.sax.saxutils import escape

COLOURS = {"numpy": "#888888", "dynoc": "#d62728", "numba": "#1f77b4", "numexpr": "#2ca02c", "jax": "#9467bd", "torch": "#ff7f0e"}
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 110, 40, 50  # margins
UNITS = (("s", 0), ("ms", -3), ("µs", -6), ("ns", -9))


def file_name(kernel):
    return "_".join("".join(c if c.isalnum() else " " for c in kernel).lower().split()) + ".svg"


def decades(values):
    """The whole powers of ten around the values."""
    return math.floor(math.log10(min(values))), max(math.ceil(math.log10(max(values))), math.floor(math.log10(min(values))) + 1)


def duration(power):
    """Ten to that power of seconds: 100 µs."""
    unit, base = next((each for each in UNITS if power >= each[1]), UNITS[-1])
    return f"{10 ** (power - base)} {unit}" if power >= base else f"1e{power} s"


class Axis:
    """Places of values between two ends in pixels."""

    def __init__(self, values, start, end):
        self.low, self.high = decades(values)
        self.start, self.end = start, end

    def at(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)

    def ticks(self):
        return range(self.low, self.high + 1)


def text(x, y, words, anchor="middle", **style):
    more = "".join(f' {key}="{value}"' for key, value in style.items())
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def stroke(x1, y1, x2, y2, colour):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def grid(across, up):
    for power in across.ticks():
        x = across.at(10.0**power)
        yield stroke(x, TOP, x, HEIGHT - BOTTOM, "#dddddd")
        yield text(x, HEIGHT - BOTTOM + 18, f"1e{power}" if power > 3 else str(10**power))
    for power in up.ticks():
        y = up.at(10.0**power)
        yield stroke(LEFT, y, WIDTH - RIGHT, y, "#dddddd")
        yield text(LEFT - 8, y + 4, duration(power), "end")


def curve(name, points, across, up, row):
    colour = COLOURS.get(name, "#000000")
    places = [(across.at(size), up.at(seconds)) for size, seconds in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{2.5 if name == "dynoc" else 1.5}"/>'
    for x, y in places:
        yield f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>'
    yield text(WIDTH - RIGHT + 12, TOP + 12 + 18 * row, name, "start", fill=colour)


def svg(title, series):
    """series: {peer: [(size, seconds)]}, none of them empty."""
    points = [point for each in series.values() for point in each]
    across = Axis([size for size, _ in points], LEFT, WIDTH - RIGHT)
    up = Axis([seconds for _, seconds in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text((LEFT + WIDTH - RIGHT) / 2, 22, title, **{"font-size": 15}),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "elements of work"),
        *grid(across, up),
    ]
    for row, (name, each) in enumerate(series.items()):
        parts += curve(name, each, across, up, row)
    return "\n".join([*parts, "</svg>"]) + "\n"
