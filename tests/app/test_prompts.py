"""At a prompt: an input that is run again leaves nothing open; openings are awaited; wrong forms name the right one."""

from __future__ import annotations

import asyncio
import builtins
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.cells.context import open_spaces
from headwater.errors import DeclarationError, SpaceHeldError, UsageError
from headwater.host.space_files import open_space


@pytest.fixture(params=["kernel", "prompt"])
def at_a_prompt(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "kernel":
        monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    else:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


def is_free(url: str) -> bool:
    """Another process could have the file."""
    code = "import sys; from headwater.host.space_files import open_space; open_space(sys.argv[1]).close()"
    return (
        subprocess.run([sys.executable, "-c", code, url], capture_output=True, check=False, timeout=120).returncode == 0
    )


def notebook(url: str) -> tuple[hw.App, hw.Space]:
    """One run from the top."""
    app = hw.App("lab")
    count = app.cell("count", 0)
    space = app.open(url)
    count.value += 1
    return app, space


@pytest.mark.usefixtures("at_a_prompt")
def test_a_notebook_that_is_run_from_the_top_again_closes_its_first_opening(tmp_path: Path) -> None:
    url = str(tmp_path / "lab.db")
    before = len(open_spaces())
    _, first = notebook(url)
    app, second = notebook(url)
    assert first.closed
    assert len(open_spaces()) == before + 1
    assert second.cell("lab.count").value == 2
    third = app.open(url)
    assert second.closed
    third.close()
    assert is_free(url)


@pytest.mark.usefixtures("at_a_prompt")
def test_only_the_same_app_at_the_same_place_is_closed(tmp_path: Path) -> None:
    url = str(tmp_path / "lab.db")
    app, first = notebook(url)
    _, elsewhere = notebook(str(tmp_path / "other.db"))
    other = hw.App("other").open(url)
    assert not first.closed
    # A block is around its code: it is closed by it.
    with app.open(url) as inner, app.open(url) as innermost:
        assert first.closed
        assert not inner.closed
        assert not innermost.closed
    elsewhere.close()
    other.close()


def test_a_program_that_opens_twice_has_two_openings(tmp_path: Path) -> None:
    url = str(tmp_path / "lab.db")
    _, first = notebook(url)
    _, second = notebook(url)
    assert not first.closed
    first.close()
    second.close()


def test_a_real_prompt_lets_go_of_the_file(tmp_path: Path) -> None:
    inputs = """
import headwater as hw
app = hw.App("lab")
space = app.open("lab.db")
app = hw.App("lab")
space = app.open("lab.db")
space.close()
from headwater.cells.context import open_spaces
print("left", len(open_spaces()))
"""
    command = [sys.executable, "-i", "-q"]
    done = subprocess.run(command, input=inputs, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert "left 0" in done.stdout, done.stderr
    assert is_free(str(tmp_path / "lab.db"))


@pytest.mark.usefixtures("at_a_prompt")
def test_an_opening_that_was_awaited_is_closed_by_the_next(tmp_path: Path) -> None:
    url = str(tmp_path / "lab.db")

    async def main() -> None:
        first = await hw.App("lab").aopen(url)
        second = await hw.App("lab").aopen(url)
        assert first.closed
        third = hw.App("lab").open(url)
        assert second.closed
        fourth = await hw.App("lab").aopen(url)
        assert third.closed
        await fourth.close()

    asyncio.run(main())
    # Of a loop that has ended, too.
    leaked = asyncio.run(_leaked(url))
    hw.App("lab").open(url).close()
    assert leaked.closed
    assert is_free(url)


async def _leaked(url: str) -> hw.AsyncSpace:
    return await hw.App("lab").aopen(url)


# --- awaiting -----------------------------------------------------------------------------------------------------


def test_an_awaited_opening_lasts_until_it_is_closed() -> None:
    app = hw.App("r")
    count = app.cell("c1", 0)
    seen: list[int] = []

    @app.sink
    async def show() -> None:
        seen.append(count.value)

    async def set_in_another_task(space: hw.AsyncSpace) -> None:
        count.value = 4
        await space.settle()

    async def main() -> None:
        space = await app.aopen("memory:")
        count.value = 3
        await space.settle()
        assert not space._opening.is_entered
        await asyncio.create_task(set_in_another_task(space))
        assert seen == [0, 3, 4]
        await space.close()
        assert space.closed
        async with await app.aopen("memory:") as again:
            count.value = 1
            await again.settle()
        assert again.closed

    asyncio.run(main())


def test_an_opening_is_used_once() -> None:
    async def main() -> None:
        opening = hw.App("r").aopen("memory:")
        space = await opening
        with pytest.raises(UsageError, match="is entered once"):
            await opening
        await space.close()

    asyncio.run(main())


def test_the_wrong_form_names_the_right_one() -> None:
    app = hw.App("r")
    right = r"`async with app\.aopen\(\.\.\.\) as space`, or `space = await app\.aopen"
    with pytest.raises(UsageError, match=right), app.aopen("memory:"):  # type: ignore[attr-defined]
        pass
    with pytest.raises(AttributeError, match=r"not open yet, and has no 'settle': `space = await app\.aopen"):
        app.aopen("memory:").settle()  # type: ignore[attr-defined]

    async def main() -> None:
        async with app.open("memory:"):  # type: ignore[attr-defined]
            pass

    with pytest.raises(UsageError, match=r"`async with app\.aopen\(\.\.\.\) as space`"):
        asyncio.run(main())
    assert not app._homes


def test_a_file_that_is_held_is_told_as_before(tmp_path: Path) -> None:
    url = str(tmp_path / "lab.db")
    with open_space(url):
        assert not is_free(url)
    assert SpaceHeldError.code == "HW202"


# --- methods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["computed", "sink", "handler", "resource"])
def test_a_method_is_refused_where_it_is_declared(kind: str) -> None:
    app = hw.App("r")
    decorate: Callable[[object], object] = getattr(app, kind)

    with pytest.raises(DeclarationError, match=rf"@app\.{kind} f\(\) is a method of class Holder"):

        class Holder:
            @decorate
            async def f(self) -> int:
                return 1

    assert "f" not in app.declared


def test_functions_in_classes_that_take_no_instance_are_functions() -> None:
    app = hw.App("r")

    class Holder:
        @staticmethod
        @app.computed
        def f(number: int) -> int:
            return number + 1

    @app.computed
    def g(self: int) -> int:
        return self

    with app.open("memory:"):
        assert Holder.f(1) == 2
        assert g(3) == 3
