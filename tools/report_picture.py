"""Makes docs/report.png: the report of a small program, as Chromium shows it. Run by whoever changes the report's looks."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "report.png"
PROGRAM = ROOT / "examples" / "report.py"


def main():
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium was found")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "dynoc", "--report", str(page), str(PROGRAM.relative_to(ROOT))]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "DYNOC_CACHE_DIR": folder})
        opened = page.read_text(encoding="utf-8").replace('<details class="entry">', '<details class="entry" open>')
        page.write_text(opened, encoding="utf-8")
        size = ["--hide-scrollbars", "--window-size=1200,1900", f"--screenshot={TARGET}"]
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", *size, page.as_uri()], check=True)


if __name__ == "__main__":
    main()
