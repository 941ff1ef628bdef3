"""What `make check` holds the tree to. Prints one line for each thing that is wrong; exit status 1 if there is one.

    tools/check.py             format, include directions, version fence, tables, sizes, head comments, warnings
    tools/check.py --format    clang-format every file in place

Called by tools/dev.py with an interpreter that has NumPy (its headers are needed for the warnings).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import graph_breaks
import numpy

ROOT = Path(__file__).resolve().parent.parent
# From the lowest: a folder includes its own headers, its parent's, and those of folders that stand before it here. Of dynoc, the
# Python face, these are tables.
FOLDERS = (
    ("dynoc", "base", "ir")
    + ("tracer/bytecode", "tracer/region", "tracer/record", "tracer/numpy", "tracer/cupy", "tracer/torch", "tracer/python")
    + ("codegen", "codegen/loops", "codegen/c", "codegen/run", "codegen/build", "codegen/cuda", "codegen/region")
    + ("evalframe/guards", "evalframe")
)
KNOWS_VERSIONS = re.compile(r"src/base/cpy\w*\.[ch]$|src/tracer/bytecode/")
MAX_LINE, MAX_FILE, MAX_TABLE, MAX_FUNCTION = 130, 800, 1000, 80
FORMATTER = "14"  # other versions of clang-format lay out other ways
FLAGS = "-std=c11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Wno-cast-function-type".split()


def name(path):
    return str(path.relative_to(ROOT))


def c_files(*ends):
    return sorted(path for end in ends for path in (ROOT / "src").rglob(f"*.{end}"))


def formatted_files():
    return [*c_files("c", "h"), *sorted((ROOT / "tests").rglob("*.c"))]


def python_files():
    return sorted(path for folder in ("src", "tests", "examples", "bench", "tools") for path in (ROOT / folder).rglob("*.py"))


def may_include(folder, other):
    if other in (folder, os.path.dirname(folder)):
        return True
    if folder.startswith("codegen") and other.startswith("tracer"):
        return False
    return FOLDERS.index(other) < FOLDERS.index(folder)


def include_directions():
    for path in c_files("c", "h"):
        folder = str(path.parent.relative_to(ROOT / "src"))
        if folder not in FOLDERS:
            yield f"{name(path)}: a folder that isn't in FOLDERS of tools/check.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)/[^"/]+"', line)
            if found and not (found[1] in FOLDERS and may_include(folder, found[1])):
                yield f"{name(path)}:{number}: {folder} must not include {found[1]}"


def version_fence():
    for path in c_files("c", "h", "def"):
        if KNOWS_VERSIONS.search(name(path)):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\b(PY_VERSION_HEX|PY_MINOR_VERSION|Py_BUILD_CORE)\b|#\s*include\s+[<\"]internal/", line):
                yield f"{name(path)}:{number}: only base/cpy, decode and asm know CPython versions"


def duplicate_rows():
    for path in c_files("def"):
        seen = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            rows = re.findall(r'(?:^|(?<=\) ))([A-Z][A-Z_0-9]*)\(\s*("[^"]*"|[A-Za-z_]\w*)', line)
            if scoped := re.match(r'TORCH\(("[^"]*"), "(\w+)', line):  # one row for each scope
                rows = [("TORCH", f"{scope}: {scoped[1]}") for scope in scoped[2]]
            if known := re.match(r'([A-Z]+)\(("[^"]*"), ("[^"]*"), (\w+), ', line):  # callables.def: one row for each handler
                rows = [(known[1], ", ".join(known.groups()[1:]))]
            for row in rows if line[:1].isupper() else ():
                if row in seen:
                    yield f"{name(path)}:{number}: {row[0]}({row[1]}) is in line {seen[row]} already"
                seen.setdefault(row, number)


def sizes():
    for path in (*c_files("c", "h"), *python_files()):
        lines = path.read_text().splitlines()
        most = MAX_TABLE if name(path).startswith("tests/") else MAX_FILE  # programs that are tested are one long table
        if len(lines) > most:
            yield f"{name(path)}: {len(lines)} lines, more than {most}"
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_LINE:
                yield f"{name(path)}:{number}: {len(line)} columns, more than {MAX_LINE}"


def function_sizes():
    for path in c_files("c"):
        start = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if start is None and re.match(r"[A-Za-z_].*\)\s*\{\s*$", line):
                start = number
            elif start is not None and line.startswith("}"):
                if number - start > MAX_FUNCTION:
                    yield f"{name(path)}:{start}: a function of {number - start} lines, more than {MAX_FUNCTION}"
                start = None


def statements_of(source):
    """C source with blanks for comments, strings, characters and directives, and line breaks where they were."""
    texts = r'^[ \t]*#(?:\\\n|/\*.*?\*/|[^\n])*|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(texts, lambda found: re.sub(r"[^\n]", " ", found[0]), source, flags=re.S | re.M)


def behind_parenthesis(text, at):
    """Where the text goes on behind the parenthesis that opens at `at`."""
    depth = 0
    for found in re.compile(r"[()]").finditer(text, at):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(text)


def braces():
    for path in c_files("c", "h"):
        text = statements_of(path.read_text())
        for found in re.finditer(r"\b(?:(?:if|for|while) *\(|else\b(?! if\b))", text):
            end = behind_parenthesis(text, found.end() - 1) if found[0].endswith("(") else found.end()
            if not re.compile(r"\s*\{").match(text, end) and not (found[0].startswith("while") and text[end] == ";"):
                yield f"{name(path)}:{text.count(chr(10), 0, found.start()) + 1}: a statement without braces"


def head_comments():
    for path in c_files("c", "h", "def"):
        if not path.read_text().startswith(f"/* {path.name}: "):
            yield f"{name(path)}:1: a file opens with a comment that says what it does: /* {path.name}: ..."
    for path in python_files():
        if not path.read_text().lstrip().startswith(('"""', 'r"""')):
            yield f"{name(path)}:1: a module opens with a docstring that says what it does"


def made_documents():
    for path in graph_breaks.wrong():
        yield f"{name(path)}: not as src/base/reasons.def and tools/reason_texts.py have it (run tools/graph_breaks.py)"


def promises():
    for path in (*c_files("c", "h", "def"), *python_files()):
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
                yield f"{name(path)}:{number}: a promise of work"
            if re.match(r"\s*except( BaseException| Exception)?\s*:", line) and path.suffix == ".py":
                yield f"{name(path)}:{number}: an except that hides what it does not know"


def formatter():
    """clang-format of the version that the tree is written with, or None."""
    for program in (f"clang-format-{FORMATTER}", "clang-format"):
        if shutil.which(program):
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            if re.search(rf"version {FORMATTER}\.", version):
                return program
    print(f"check: no clang-format {FORMATTER}: format is not looked at")
    return None


def layout():
    program = formatter()
    if program is None:
        return
    done = subprocess.run(
        [program, "--dry-run", "-Werror", *map(str, formatted_files())], capture_output=True, text=True, cwd=ROOT
    )
    first = {}  # line of each file
    for path, number in re.findall(r"^(\S+?):(\d+):\d+: error", done.stderr, re.M):
        first.setdefault(path, number)
    for path, number in sorted(first.items()):
        place = f"{path.removeprefix(str(ROOT) + '/')}:{number}"
        yield f"{place}: not as clang-format writes it (make format, or tools/check.py --format)"


def warnings():
    compilers = [program for program in ("gcc", "clang") if shutil.which(program)]
    include = [f"-I{path}" for path in (ROOT / "src", sysconfig.get_path("include"), numpy.get_include())]

    def compile_one(job):
        compiler, path = job
        command = [compiler, *FLAGS, *include, "-fsyntax-only", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        return [f"{compiler}: {line}" for line in done.stderr.splitlines()] if done.returncode else []

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(compile_one, [(compiler, path) for compiler in compilers for path in c_files("c")]):
            yield from lines


def typed_files():
    """What a type checker has to find nothing in: programs that use dynoc as a user does."""
    own = ("run_all", "bert", "resnet18", "training")  # without stubs for PyTorch there is nothing to check in these
    examples = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in own]
    return [*examples, ROOT / "tests" / "py" / "types_example.py"]


def type_checkers():
    """mypy and pyright, with NumPy as this interpreter has it. tools/dev.py installs them, and MYPY and PYRIGHT name them; else
    they are looked for on the PATH."""
    with tempfile.TemporaryDirectory() as folder:
        included = [os.path.relpath(path, os.path.realpath(folder)) for path in typed_files()]  # absolute ones it passes over
        config = {"include": included, "extraPaths": [str(ROOT / "src")]}
        config |= {"reportMissingImports": False, "reportMissingModuleSource": False}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(config))
        mypy = ["--no-error-summary", "--cache-dir", os.devnull, "--ignore-missing-imports"]
        mypy += ["--python-executable", sys.executable]
        commands = {"mypy": [*mypy, *map(str, typed_files())], "pyright": ["--project", folder, "--pythonpath", sys.executable]}
        for program, arguments in commands.items():
            found = os.environ.get(program.upper()) or shutil.which(program)
            if not found:
                print(f"check: {program} is not installed, so it isn't run (pip install {program})")
                continue
            environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
            done = subprocess.run([found, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
            if done.returncode:
                yield from (f"{program}: {line}" for line in (done.stdout + done.stderr).splitlines())


CHECKS = (
    include_directions,
    version_fence,
    duplicate_rows,
    sizes,
    function_sizes,
    braces,
    head_comments,
    made_documents,
    promises,
    layout,
    warnings,
    type_checkers,
)


def main(arguments):
    if arguments == ["--format"]:
        program = formatter()
        return subprocess.run([program, "-i", *map(str, formatted_files())]).returncode if program else 1
    wrong = 0
    for check in CHECKS:
        for line in check():
            print(line)
            wrong += 1
    print(f"check: {len(CHECKS)} checks, {wrong or 'nothing'} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
