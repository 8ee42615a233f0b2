"""Build the documentation site, serve it, or check what was built. `./hw docs` runs it in an environment of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html import escape
from pathlib import Path

from tools.docs.check_site import check

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / ".site"
ZENSICAL = [sys.executable, "-m", "zensical"]
COLOR = re.compile(r"\x1b\[[0-9;]*m")
DESCRIPTION = re.compile(r'(<meta name="description" content=")[^"]*(">)')
ESCAPED = re.compile(r"<code>[^<]*\\\|[^<]*</code>")
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
        sys.exit(f"the site was not built: {len(found) or 'unknown'} findings")
    finish_pages()
    leave_history_out()
    (SITE / "llms.txt").write_text(summary(), encoding="utf-8")
    print(f"{sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE}")


def finish_pages() -> None:
    """Put the programs of examples/ that pages link to on the site, and correct the links: they leave docs/.

    A bar in a table is escaped, also within code: GitHub takes the backslash away there, Python-Markdown does not.
    """
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for link in set(re.findall(r'href="((?:\.\./)+examples/[\w/.-]+)"', text)):
            name = link.replace("../", "")
            (SITE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, SITE / name)
            up = "../" * (len(page.relative_to(SITE).parts) - 1)
            text = text.replace(f'href="{link}"', f'href="{up}{name}"')
        if asks := question_of(page.relative_to(SITE).with_suffix(".md")):
            text = DESCRIPTION.sub(lambda found: f"{found[1]}{escape(asks)}{found[2]}", text, count=1)
        text = ESCAPED.sub(lambda code: code[0].replace("\\|", "|"), text)
        page.write_text(text, encoding="utf-8")


def question_of(page: Path) -> str:
    """The question that a page answers: its description for search engines. Empty for pages without one."""
    source = ROOT / "docs" / page
    found = re.match(r"<!-- question: (.+) -->", source.read_text(encoding="utf-8")) if source.is_file() else None
    return found[1] if found else ""


def leave_history_out() -> None:
    """Take decisions, the changelog and pages that have moved out of the search: they hide the page that is meant.

    Decisions and changes are found from their indexes.
    """
    index = SITE / "search.json"
    found = json.loads(index.read_text(encoding="utf-8"))
    found["items"] = [
        item | {"text": ESCAPED.sub(lambda code: code[0].replace("\\|", "|"), item["text"])}
        for item in found["items"]
        if not item["location"].startswith(("decisions/0", "reference/changelog")) and item["path"][:1] != ["Moved"]
    ]
    index.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def summary() -> str:
    """The pages of the site with the question that each answers, for programs that read documentation."""
    lines = ["# Headwater", "", "> Reactive, durable state for Python programs."]
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    for entry in config.splitlines():
        if tab := re.fullmatch(r"  - ([\w-]+):", entry):
            lines += ["", f"## {tab[1]}", ""]
        elif named := re.search(r"([\w/-]+)\.md", entry):
            text = (ROOT / "docs" / named[0]).read_text(encoding="utf-8")
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            asks = question_of(Path(named[0]))
            page = named[1].replace("README", "index")
            lines.append(f"- [{title[1] if title else page}]({page}.html)" + (f": {asks}" if asks else ""))
    return "\n".join(lines) + "\n"


def main(what: str, *rest: str) -> None:
    """Do what `./hw docs` was asked for."""
    if what == "serve":
        sys.exit(subprocess.run([*ZENSICAL, "serve", *rest], cwd=ROOT, check=False).returncode)
    build()
    if what == "test":
        (node,) = rest
        found = check(SITE, node)
        print("\n".join(found) or "the pages load nothing from elsewhere, links lead somewhere, the search finds them")
        sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
