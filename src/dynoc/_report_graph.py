"""A graph as SVG: nodes from top to bottom in the order in which they run, those of one kernel together in a frame."""

from html import escape

WIDTH, HEIGHT, GAP_X, GAP_Y = 150, 34, 18, 22  # of a node, and between nodes
PAD, TITLE, BETWEEN = 12, 20, 30  # of a frame: around its nodes, its title's height, and between frames
MOST_NODES = 400  # that are drawn; the text of a graph has all of them
COLOURS = 8  # of kernels, in the style sheet


class Frame:
    """Nodes of one step: inputs, a kernel, a call or a view."""

    def __init__(self, title, kind, number):
        self.title, self.kind, self.number, self.nodes = title, kind, number, []

    def arrange(self, arguments):
        """Rows of nodes, each below what it is computed from."""
        level = {}
        for n in self.nodes:
            level[n] = 1 + max((level[a] for a in arguments[n] if a in level), default=-1)
        self.rows = [[n for n in self.nodes if level[n] == row] for row in range(max(level.values(), default=-1) + 1)]
        widest = max(map(len, self.rows), default=1)
        self.width = widest * WIDTH + (widest - 1) * GAP_X + 2 * PAD
        self.height = TITLE + 2 * PAD + len(self.rows) * HEIGHT + (len(self.rows) - 1) * GAP_Y


def frames_of(entry):
    """Frames in the order in which they run. Inputs have one of their own."""
    kernels = entry.kernel_of()
    inputs, others = Frame("inputs", "input", -1), Frame(entry.others, "rest", -1)
    frames = [Frame(f"{step['kind']} {k}: {step['name']}", step["kind"], k) for k, step in enumerate(entry.steps)]
    for n, (_, op) in entry.kinds.items():
        frame = inputs if op == "input" else frames[kernels[n]] if n in kernels else others
        frame.nodes.append(n)
    return [frame for frame in [inputs, *frames, others] if frame.nodes]


def arguments_of(entry):
    return {n: [i for kind, i in entry.data["nodes"][n]["args"] if kind == "node"] for n in entry.kinds}


def place_nodes(frames):
    """{node: (x, y)} of its upper left corner; the size of the whole, and the frames' (x, y)."""
    whole = max(frame.width for frame in frames)
    at, corners, y = {}, [], 0
    for frame in frames:
        left = (whole - frame.width) / 2
        corners.append((left, y))
        for r, row in enumerate(frame.rows):
            used = len(row) * WIDTH + (len(row) - 1) * GAP_X
            x = left + (frame.width - used) / 2
            for n in row:
                at[n] = (x, y + TITLE + PAD + r * (HEIGHT + GAP_Y))
                x += WIDTH + GAP_X
        y += frame.height + BETWEEN
    return at, corners, whole, y - BETWEEN


def shortened(text, most):
    return text if len(text) <= most else text[: most - 1] + "…"


def edge(start, end):
    x1, y1 = start[0] + WIDTH / 2, start[1] + HEIGHT
    x2, y2 = end[0] + WIDTH / 2, end[1]
    bend = max(12.0, (y2 - y1) / 2)
    return f'<path class="edge" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"/>'


def box(entry, n, corner, is_output):
    dtype, op = entry.kinds[n]
    place = entry.place_of(n)
    hint = f"%{n} = {op}" + (f"\n{place[0]}:{place[1]}" if place else "")
    x, y = corner
    return (
        f'<g class="node{" output" if is_output else ""}" data-op="{escape(op)}"><title>{escape(hint)}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x + WIDTH / 2:.1f}" y="{y + 14:.1f}">{escape(shortened(op, 20))}</text>'
        f'<text class="type" x="{x + WIDTH / 2:.1f}" y="{y + 27:.1f}">%{n} {escape(shortened(dtype, 20))}</text></g>'
    )


def svg(entry):
    """The entry's graph; a sentence where it is too large or empty."""
    if len(entry.kinds) > MOST_NODES:
        return f"<p>The graph has {len(entry.kinds)} nodes, too many for a drawing; its text follows.</p>"
    frames, arguments = frames_of(entry), arguments_of(entry)
    if not frames:
        return "<p>The graph is empty: the segment does no array work.</p>"
    for frame in frames:
        frame.arrange(arguments)
    at, corners, width, height = place_nodes(frames)
    parts = []
    for frame, (x, y) in zip(frames, corners):
        colour = f" k{frame.number % COLOURS}" if frame.number >= 0 else ""
        parts.append(
            f'<g class="frame {frame.kind}{colour}"><rect x="{x:.1f}" y="{y:.1f}" width="{frame.width}" height="{frame.height}" '
            f'rx="8"/><text x="{x + PAD:.1f}" y="{y + 16:.1f}">{escape(shortened(frame.title, int(frame.width / 7)))}</text>'
            f"<title>{escape(frame.title)}</title></g>"
        )
    parts += [edge(at[a], at[n]) for n in entry.kinds for a in arguments[n] if a in at]
    parts += [box(entry, n, at[n], n in entry.data["outputs"]) for n in entry.kinds]
    return (
        f'<svg class="graph" role="img" aria-label="graph of entry {entry.number}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="-1 -1 {width + 2:.0f} {height + 2:.0f}">{"".join(parts)}</svg>'
    )


STYLE = """
.graph rect { fill: none; stroke: #8888 } .graph .node rect { fill: #8882; stroke: #888 } .graph .output rect { stroke-width: 2 }
.graph path { fill: none; stroke: #8888 } .graph text { fill: currentColor; font: 11px sans-serif }
.graph .node text { text-anchor: middle } .graph .node .type { font-size: 9px; opacity: 0.7 }
"""


class Nodes:
    """A `Graph` as `svg` draws the one of an entry: without kernels."""

    others, steps, number = "operations", (), "0"

    def __init__(self, graph):
        self._nodes = [n for n in graph.nodes if n.op != "output"]
        number = {n: i for i, n in enumerate(self._nodes)}
        results = [a for n in graph.nodes if n.op == "output" for a in n.all_input_nodes]
        args = [[("node", number[a]) for a in n.all_input_nodes] for n in self._nodes]
        self.kinds = {i: (self._type(n), self._operator(n)) for i, n in enumerate(self._nodes)}
        self.data = {"nodes": [{"args": a} for a in args], "outputs": [number[n] for n in results]}

    @staticmethod
    def _type(node):
        shape = node.meta.get("shape")
        return f"{node.meta.get('dtype', '')}{'' if shape is None else list(shape)}"

    @staticmethod
    def _operator(node):
        if node.op == "placeholder":
            return "input"
        return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))

    def kernel_of(self):
        return {}

    def place_of(self, n):
        file, line = self._nodes[n].meta.get("file"), self._nodes[n].meta.get("line")
        return None if file is None else (file, line)


def in_notebook(graph):
    """A `Graph` drawn, and its text folded below."""
    text = f"<details><summary>as text</summary><pre>{escape(str(graph))}</pre></details>"
    return f"<style>{STYLE}</style>{svg(Nodes(graph))}{text}"
