"""`dynoc.report` and ``python -m dynoc --report``: the HTML as a parser reads it, and as a browser (where one is) shows it."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from process import run_python

PROGRAM = '''import numpy as np
import dynoc

def length(x, y):
    return np.sqrt(x * x + y * y)

def total(n):
    s = 0.0
    for i in range(n):
        s += i * 0.5  # a <comment>
    return s

def forward(x):
    h = np.tanh(x) * 2
    print(end="")
    return np.sort(h) + length(h, h)

@dynoc.optimize
def words(x):
    return np.array(["a", "b"], dtype=object) + x

fast, loop = dynoc.optimize(forward, wait=True), dynoc.optimize(total, wait=True)
for _ in range(5):
    fast(np.linspace(0, 1, 1000))
    loop(2000)
words("c")
'''
EMPTY = {"meta", "input", "br"}
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Reader(HTMLParser):
    """Elements as (tag, attributes, text), and whether each end fits its start."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.wrong = [], [], []

    def handle_starttag(self, tag, attrs):
        element = (tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append((tag, self.getpos()))
        else:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element[2].append(data)

    def of(self, tag, kind=None):
        """(attributes, text) of elements with this tag and class."""
        found = []
        for name, attrs, texts in self.elements:
            if name == tag and (kind is None or kind in (attrs.get("class") or "").split()):
                found.append((attrs, "".join(texts)))
        return found


def read(text):
    reader = Reader()
    reader.feed(text)
    return reader


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report of the program above: (path, its text)."""
    folder = tmp_path_factory.mktemp("report")
    program, path = folder / "program.py", folder / "out.html"
    program.write_text(PROGRAM)
    cache = folder / "cache"
    code, _, said = run_python(["-m", "dynoc", "--report", str(path), str(program)], DYNOC_CACHE_DIR=cache, DYNOC_RETIRE=0)
    assert code == 0, said
    return path, path.read_text(encoding="utf-8")


def test_it_is_well_formed_and_needs_no_network(written):
    page = read(written[1])
    assert page.wrong == [] and page.open == []
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs, _ in page.elements:
        assert "src" not in attrs and tag != "link"
        if "href" in attrs:
            assert attrs["href"][0] == "#" and attrs["href"][1:] in ids
    assert "url(" not in written[1] and "@import" not in written[1]


def line_kinds(page):
    """{line of the program: (kind, note)} of the coloured lines."""
    kinds = {}
    for attrs, _ in page.of("div", "line"):
        if "program-py-" in attrs["id"]:
            kind = attrs["class"].split()[1:]
            if kind:
                kinds[int(attrs["id"].rpartition("-")[2])] = (kind[0], attrs["title"])
    return kinds


def test_lines_are_coloured_by_what_happened_to_them(written):
    kinds = line_kinds(read(written[1]))
    lines = {PROGRAM.splitlines()[n - 1].strip(): kind for n, (kind, _) in kinds.items()}
    assert lines["return np.sqrt(x * x + y * y)"] == "captured"
    assert lines["h = np.tanh(x) * 2"] == "captured"
    assert lines['print(end="")'] == "broke"
    assert lines["return np.sort(h) + length(h, h)"] == "captured"
    assert lines["for i in range(n):"] == "loop" and lines["s += i * 0.5  # a <comment>"] == "loop"
    assert lines['return np.array(["a", "b"], dtype=object) + x'] == "broke"
    assert "OPAQUE_CALL" in kinds[15][1] and "tanh in kernel" in kinds[14][1]


def test_source_and_code_are_highlighted_and_escaped(written):
    page = read(written[1])
    assert any(text == "# a <comment>" for _, text in page.of("span", "comment"))
    assert any(text == "return" for _, text in page.of("span", "word"))
    codes = [text for _, text in page.of("details", "code")]
    assert any("lanes_0_tanh_multiply" in text for text in codes)
    assert any(text == "#pragma omp simd" for _, text in page.of("span", "pre"))


def test_graphs_have_a_frame_for_each_kernel(written):
    page = read(written[1])
    frames = [text for _, text in page.of("g", "frame")]
    assert any(text.startswith("kernel 0: tanh, multiply") for text in frames)
    nodes = [attrs["data-op"] for attrs, _ in page.of("g", "node")]
    assert {"input", "tanh", "multiply", "sqrt", "add"} <= set(nodes)
    assert len(page.of("path", "edge")) >= len(nodes) - nodes.count("input") - 1
    assert any("output" in attrs["class"] for attrs, _ in page.of("g", "node"))


def test_functions_kernels_guards_and_the_timeline(written):
    page = read(written[1])
    (table,) = page.of("table", "functions")
    assert all(name in table[1] for name in ("forward", "total", "words"))
    (steps,) = page.of("table", "steps")
    assert "tanh, multiply" in steps[1] and "GB/s" in steps[1] and "native loop" in steps[1] and "sort" in steps[1]
    bars = {attrs["class"] for attrs, _ in page.of("rect") if "class" in attrs}
    assert bars == {"record", "compile", "build"}
    assert any("x.dtype == float64" in text for _, text in page.of("details", "entry"))
    reasons = [text for _, text in page.of("div", "reason")]
    assert any("print(end" in text and "^^^" in text for text in reasons)


def test_a_program_without_arrays_and_a_file_that_cannot_be_written(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("print('done')")
    code, out, said = run_python(["-m", "dynoc", f"--report={tmp_path / 'r.html'}", str(program)])
    assert (code, out, said) == (0, "done\n", "")
    page = read((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.wrong == [] and any("0 functions" in text for _, text in page.of("header"))
    folder = tmp_path / "gone"
    folder.mkdir()
    program.write_text(f"import os\nos.rmdir({str(folder)!r})\nprint('done')\n")
    code, out, said = run_python(["-m", "dynoc", "--report", str(folder / "r.html"), str(program)])
    assert (code, out) == (0, "done\n") and said.startswith("dynoc: --report: [Errno 2]")


def test_functions_that_the_collector_has_looked_through(tmp_path):
    program, report = tmp_path / "program.py", tmp_path / "r.html"
    program.write_text(
        "import gc\nimport numpy as np\n\ndef waves(x):\n    return np.sin(x) + 1\n\n"
        "for _ in range(50):\n    waves(np.ones(10000))\ngc.collect()\nprint('done')\n"
    )
    code, out, said = run_python(["-m", "dynoc", "--wait", f"--report={report}", str(program)])
    assert (code, out, said) == (0, "done\n", "")
    assert "waves" in report.read_text(encoding="utf-8")


def shown(written, folder, script):
    """The page as a browser has it when a further script has run: its DOM as text."""
    path = folder / "shown.html"
    path.write_text(written[1].replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", f"--user-data-dir={folder}/user"]
    done = subprocess.run([BROWSER, *flags, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout



@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_a_browser_searches_filters_and_changes_colours(written, tmp_path):
    search = 'box.value = "tanh"; box.oninput();'
    page = read(shown(written, tmp_path, search))
    hidden = {text.split()[0]: "hidden" in attrs["class"] for attrs, text in page.of("section", "function")}
    assert hidden["forward"] is False and hidden["total"] is True and hidden["words"] is True

    only_loops = 'document.querySelectorAll("#keys input").forEach(x => x.checked = x.dataset.kind === "loop"); update();'
    page = read(shown(written, tmp_path, only_loops))
    assert {kind for kind, _ in line_kinds(page).values()} == {"loop"}
    hidden = {text.split()[0]: "hidden" in attrs["class"] for attrs, text in page.of("section", "function")}
    assert hidden["total"] is False and hidden["words"] is True

    colour = 'getComputedStyle(document.body).backgroundColor'
    say = f'root.classList.remove("dark"); const a = {colour}; theme.click(); document.title = a + " " + {colour};'
    title = re.search("<title>(.*?)</title>", shown(written, tmp_path, say))[1]
    assert title == "rgb(255, 255, 255) rgb(20, 23, 28)"
