"""tests/ mirrors src/: a folder of tests is named after the package that it tests."""

from pathlib import Path

from tests.structure.project import PACKAGE, ROOT

BESIDE = {
    "app": "what an author sees of an app as a whole (`app.py`)",
    "bench": "the benchmarks",
    "browser": "the pages of the Studio, in a real browser",
    "docs": "documents and examples",
    "regress": "plans of worlds that failed once",
    "sim": "the simulator of whole systems",
    "spaces": "several spaces in one program, one file for each rule",
    "structure": "the source as text",
    "support": "what several folders share",
    "system": "processes, servers and disks together: crashes, histories, attacks",
    "typing": "types as authors see them",
}


def has_source(folder: Path) -> bool:
    """Not one of which a rename left the compiled files."""
    return next(folder.rglob("*.py"), None) is not None


def test_every_package_with_tests_of_its_own_has_a_folder_of_its_name() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and has_source(path)}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert packages <= folders
    assert folders - packages - modules <= set(BESIDE)


def test_a_folder_within_is_a_package_within_or_a_subject_of_it() -> None:
    """A subject gathers the tests of one part, with what they share; its name is no package of another place."""
    packages = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}
    for path in (ROOT / "tests").glob("*/*/"):
        where = path.relative_to(ROOT / "tests").as_posix()
        if path.parent.name in BESIDE or not has_source(path):
            continue
        elsewhere = [each for each in packages if each.count("/") == 1 and each.endswith(f"/{path.name}")]
        assert where in packages or not elsewhere, f"tests/{where}: there is {elsewhere}"
