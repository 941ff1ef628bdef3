"""Builds the documents as a web site in build/site, with mkdocs (`pip install mkdocs`): python tools/site.py [--serve].

The pages are those of docs/ and of the project's root, with two that are made here: the settings, from src/dynoc/settings.def and
logs.def, and a reference, from the docstrings. A link that leads nowhere is an error.
"""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dynoc
from dynoc import _dynoc

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "build" / "site-pages", ROOT / "build" / "site"
MOVED = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
NAV = {
    "Home": "index.md",
    "Getting started": "getting_started.md",
    "How it works": "how_it_works.md",
    "Loops": "loops.md",
    "PyTorch": "pytorch.md",
    "CuPy": "cupy.md",
    "Performance": "performance.md",
    "Debugging": "debugging.md",
    "Reasons": "graph_breaks.md",
    "Settings": "settings.md",
    "Reference": "reference.md",
    "Graphs and back ends": "graphs.md",
    "Known issues": "known_issues.md",
    "NumPy coverage": "numpy_coverage.md",
    "PyTorch coverage": "torch_coverage.md",
    "Beside torch.compile, Numba and JAX": "comparison.md",
    "The suite beside its peers": "lab/peers.md",
    "Changes": "CHANGELOG.md",
    "Architecture": "ARCHITECTURE.md",
    "Representations": "ir.md",
    "Glossary": "GLOSSARY.md",
    "Contributing": "CONTRIBUTING.md",
    "Measurements": "lab/README.md",
}


def settings_page():
    where = "`dynoc.config.NAME`, the environment variable `DYNOC_NAME`, or `NAME` in `[tool.dynoc]` of `pyproject.toml`;"
    lines = ["# Settings", "", where, "`dynoc.optimize(fn, options={name: value})` for one function.", ""]
    lines += ["| name | default | values | what it does |", "|---|---|---|---|"]
    for name, (kind, default, low, high, what) in _dynoc.config_names().items():
        values = {bool: "True, False", str: "text"}.get(kind, f"{low} to {high}")
        lines.append(f"| `{name}` | `{default!r}` | {values} | {what} |")
    lines += ["", "## Log categories", "", "| category | what it shows |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in _dynoc.log_names().items()]
    return "\n".join(lines) + "\n"


def documented(name, thing):
    """A section of the reference: signature and docstring, as they stand."""
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    text = inspect.getdoc(thing) or ""
    return f"## {name}\n\n```\ndynoc.{name}{signature}\n```\n\n```text\n{text}\n```\n"


def reference_page():
    names = [name for name in dynoc.__all__ if callable(getattr(dynoc, name))]
    parts = [documented(name, getattr(dynoc, name)) for name in sorted(names, key=str.lower)]
    return "# Reference\n\nThe public names of `dynoc`, from their docstrings.\n\n" + "\n".join(parts)


def adapted(text, page):
    """The page's text with links as they are in the site; what is no page of it becomes plain text."""

    def link(found):
        said, target = found[1], found[2]
        if re.match(r"https?:|#", target):
            return found[0]
        path, hash_, anchor = target.partition("#")
        there = (ROOT / page).parent / path
        try:
            inside = there.resolve().relative_to(ROOT / "docs")
        except ValueError:
            name = MOVED.get(there.resolve().relative_to(ROOT).as_posix())
            inside = Path(name) if name else None
        if inside is None or not there.is_file():
            return said
        own = Path(page).relative_to("docs") if page.startswith("docs/") else Path(MOVED[page])
        up = "../" * len(own.parent.parts)
        return f"[{said}]({up}{inside.as_posix()}{hash_}{anchor})"

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def make_pages():
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for path in sorted(PAGES.rglob("*.md")):
        page = "docs/" + path.relative_to(PAGES).as_posix()
        path.write_text(adapted(path.read_text(encoding="utf-8"), page), encoding="utf-8")
    for page, name in MOVED.items():
        (PAGES / name).write_text(adapted((ROOT / page).read_text(encoding="utf-8"), page), encoding="utf-8")
    (PAGES / "settings.md").write_text(settings_page(), encoding="utf-8")
    (PAGES / "reference.md").write_text(reference_page(), encoding="utf-8")


def configuration():
    nav = "\n".join(f"  - {title}: {page}" for title, page in NAV.items())
    others = "validation: {omitted_files: ignore, links: {not_found: warn, anchors: warn, unrecognized_links: warn}}"
    theme = "theme: {name: mkdocs, color_mode: auto, user_color_mode_toggle: true}"
    return f"site_name: dynoc\ndocs_dir: {PAGES}\nsite_dir: {SITE}\n{theme}\n{others}\nnav:\n{nav}\n"


def main():
    make_pages()
    file = PAGES.parent / "mkdocs.yml"
    file.write_text(configuration(), encoding="utf-8")
    mkdocs = shutil.which("mkdocs")
    if mkdocs is None:
        sys.exit("mkdocs was not found: pip install mkdocs")
    command = ["serve"] if "--serve" in sys.argv else ["build", "--strict", "--quiet"]
    return subprocess.run([mkdocs, *command, "--config-file", str(file)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
