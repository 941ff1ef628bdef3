"""`python -m dynoc cache info|clear|prune`: the folder of compiled objects.

Objects are named by what they were made of, and any number of processes share them, so each can be removed at any time: who
wants it again compiles it again. What else lies in the folder is left alone.
"""

import os
import re
import sys
import time
from pathlib import Path

from dynoc import _dynoc

OBJECT = re.compile(r"[0-9a-f]{64}\.(so|way)")
DAY = 86400.0
USAGE = """python -m dynoc cache info            where it is, how much is in it, when that was last used
python -m dynoc cache clear           remove all of it
python -m dynoc cache prune [DAYS]    remove what was not used for so many days (30)"""


def objects(folder):
    """(path, bytes, seconds since the epoch of the last use) of each object."""
    found = []
    try:
        for entry in os.scandir(folder):
            if OBJECT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append((Path(entry.path), status.st_blocks * 512, status.st_mtime))
    except FileNotFoundError:
        pass
    return found


def info(folder):
    found = objects(folder)
    print(f"{folder}: {len(found)} objects, {sum(size for _, size, _ in found) / 1e6:.1f} MB")
    if found:
        now = time.time()
        oldest, newest = ((now - used(when for _, _, when in found)) / DAY for used in (min, max))
        print(f"last used between {max(0, newest):.1f} and {max(0, oldest):.1f} days ago")


def remove(folder, found):
    removed = 0
    for path, size, _ in found:
        path.unlink(missing_ok=True)
        removed += size
    print(f"{folder}: {len(found)} objects removed, {removed / 1e6:.1f} MB")


def main(words):
    """The exit code of a command line behind `python -m dynoc cache`."""
    folder = _dynoc.build_info()["cache_dir"]
    command, *rest = words or [""]
    days = rest[0] if len(rest) == 1 and command == "prune" else "30"
    if command not in ("info", "clear", "prune") or (rest and command != "prune") or len(rest) > 1 or not days.isdecimal():
        print(f"python -m dynoc cache: what is wanted?\n\n{USAGE}", file=sys.stderr)
        return 2
    try:
        if command == "info":
            info(folder)
        else:
            before = time.time() - int(days) * DAY
            remove(folder, [one for one in objects(folder) if command == "clear" or one[2] < before])
    except BrokenPipeError:  # who reads went away
        raise
    except OSError as error:
        print(f"python -m dynoc cache: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
