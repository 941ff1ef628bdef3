"""`python -m dynoc reason CODE`: what a reason code means for a program, and what helps.

The pages are those of docs/reasons, which the package carries.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = (os.path.join(HERE, "reasons"), os.path.join(HERE, "..", "..", "docs", "reasons"))  # installed; in the project's tree


def pages():
    """{code: path} of the pages that are there."""
    folder = next(filter(os.path.isdir, FOLDERS), None)
    names = sorted(os.listdir(folder)) if folder else ()
    return {name.removesuffix(".md"): os.path.join(folder, name) for name in names if name.endswith(".md")}


def main(words):
    """Print the page of a code; 2 where there is none, with the codes that there are."""
    found = pages()
    if len(words) != 1 or words[0].upper() not in found:
        print(f"python -m dynoc reason CODE        (one of {', '.join(found)})", file=sys.stderr)
        return 2
    with open(found[words[0].upper()], encoding="utf-8") as file:
        print(file.read().rstrip())
    return 0
