"""The README and the pages for users: each block of Python runs, one behind the other, and links lead somewhere."""

import re
from pathlib import Path

import pytest

import dynoc

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/getting_started.md", "docs/how_it_works.md", "docs/loops.md", "docs/performance.md", "docs/graphs.md"]
LINKED = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    dynoc.set_logs()
    dynoc.disable()


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [(text[: found.start()].count("\n") + 1, found[1]) for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)]
    assert blocks
    monkeypatch.chdir(tmp_path)
    space = {"__name__": page}
    for line, block in blocks:
        exec(compile("\n" * line + block, str(ROOT / page), "exec"), space)


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?:|mailto:|#", target):
            assert (page.parent / target.partition("#")[0]).exists(), target
