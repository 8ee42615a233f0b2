"""The files of the page: small, without markup from texts, and served without comments and spare spaces."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.studio.lean import lean_script, lean_style
from headwater.studio.static_files import static_files

WEB = Path(__file__).parents[2] / "src" / "headwater" / "studio" / "web"
SCRIPTS = sorted(WEB.rglob("*.js"))
STYLES = sorted(WEB.rglob("*.css"))
BYTES_MAX = 150 * 1024
LINES_MAX = 400


def test_all_files_together_are_smaller_than_150_kib() -> None:
    files = static_files()
    sizes = {path: len(file.body) for path, file in files.by_path.items()} | {"index": len(files.index.body)}
    assert sum(sizes.values()) < BYTES_MAX, sizes


def test_every_file_of_the_folder_is_served() -> None:
    paths = {str(path.relative_to(WEB)) for path in WEB.rglob("*") if path.is_file()}
    assert paths == {*static_files().by_path, "index.html"}


def test_index_names_only_files_that_are_there() -> None:
    files = static_files()
    index = files.index.body.decode()
    assert "@files@" not in index
    named = re.findall(r'(?:href|src)="/studio/([^/]+)/([^"]+)"', index)
    assert named
    assert {version for version, _ in named} == {files.version}
    assert {path for _, path in named} <= files.by_path.keys()
    assert "<style" not in index
    assert not re.search(r"<script(?![^>]*\bsrc=)", index), "no inline script"
    assert not re.search(r"\s(on\w+|style)=", index)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_makes_no_markup_from_text_and_knows_no_other_site(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|\.cookie|srcdoc"
    )
    assert not re.search(forbidden, text)
    assert re.findall(r"https?://[^\s\"'`]+", text) in ([], ["http://www.w3.org/2000/svg"])
    assert not re.search(r"""from ["'][^."']""", text), "modules are named by their path: no bundler, no CDN"
    assert text.count("\n") < LINES_MAX


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_import_of_a_script_is_there_and_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for names, file in re.findall(r"^import (?:\{ ([^}]+) \}|\* as \w+) from \"([^\"]+)\";$", text, re.MULTILINE):
        target = (path.parent / file).resolve()
        assert target.is_file(), file
        exported = target.read_text(encoding="utf-8")
        for name in filter(None, names.split(", ")):
            assert re.search(
                rf"export (?:const|function|class|async function) {name}\b|export \{{[^}}]*\b{name}\b", exported
            ), name
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is not used"


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.name)
def test_colours_are_named_in_one_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.name != "tokens.css":
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b|\brgb\(|\bhsl\(", text)
    assert "url(" not in text
    assert "@import" not in text


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def tokens(theme: int) -> dict[str, str]:
    blocks = (WEB / "styles" / "tokens.css").read_text(encoding="utf-8").split(':root[data-theme="dark"]')
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[theme]))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_pair_of_text_and_ground_can_be_read(theme: int) -> None:
    found = tokens(theme)
    states = ("clean", "invalid", "running", "failed", "waiting", "dormant")
    pairs = [(name, f"{name}-soft") for name in states]
    pairs += [(ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in ("ground", "surface", "sunken")]
    pairs += [("accent", "surface"), ("accent", "accent-soft"), ("accent-ink", "accent"), ("failed", "surface")]
    for text, ground in pairs:
        assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
    for border in ("line-strong", "focus"):
        assert contrast(found[border], found["surface"]) >= 3, border


def test_lean_script_keeps_texts_patterns_and_templates() -> None:
    source = (
        "// gone\nconst a = 'b // c';  /* gone */\n"
        'const d = /["/] x/g.test(a) ? `e ${ f + ` g ` } /* h */` : a / b / c;\nlet x = a + +b\n'
    )
    assert lean_script(source) == (
        "const a='b // c';const d=/[\"/] x/g.test(a)?`e ${ f + ` g ` } /* h */`:a / b / c;let x=a + +b\n"
    )


def test_lean_style_keeps_calculations_and_selectors() -> None:
    source = "/* gone */\n.a > b , .c d { width: calc(100vh - var(--bar)); color: red; }\n.e :is(f, g) { top: 0 }\n"
    assert lean_style(source) == ".a>b,.c d{width:calc(100vh - var(--bar));color:red}.e :is(f,g){top:0}"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node: the browser tests run the served scripts, too")
def test_served_scripts_are_scripts() -> None:
    for path, file in static_files().by_path.items():
        if path.endswith(".js"):
            command = ["node", "--check", "--input-type=module"]
            done = subprocess.run(command, input=file.body, capture_output=True, check=False)
            assert done.returncode == 0, (path, done.stderr.decode())
