"""Build the documentation site, serve it, or check what was built. `./hw docs` runs it in an environment of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".site"
ZENSICAL = [sys.executable, "-m", "zensical"]


COLOR = re.compile(r"\x1b\[[0-9;]*m")
FINDING = re.compile(r"^(?:Warning|Error): (.+)\n.*?\[ (\S+:\d+:\d+) \]", re.MULTILINE)


def build() -> None:
    """Build the site from nothing. A warning is an error."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [*ZENSICAL, "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        said = COLOR.sub("", done.stdout)
        found = [f"docs/{where}: {what}" for what, where in FINDING.findall(said)]
        print("\n".join(found) or said, file=sys.stderr)
        sys.exit(f"the site was not built: {len(found)} findings")


def main(what: str, *rest: str) -> None:
    """Do what `./hw docs` was asked for."""
    if what == "serve":
        sys.exit(subprocess.run([*ZENSICAL, "serve", *rest], cwd=ROOT, check=False).returncode)
    build()


if __name__ == "__main__":
    main(*sys.argv[1:])
