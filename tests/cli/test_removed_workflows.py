"""Workflows that are in the file, and not in the program that has it open."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.cli.test_hosting import hosting
from tests.support.letters import LETTERS, Post

FEWER = re.sub(r"(?m)^(parcels|boxes) = .*\n|^parcels\.consumer.*\n|^@parcels\.producer(.|\n)*?\n\n", "", LETTERS)
"""The same program, without its second workflow."""

GONE = "It is in the file, but not in the program that has it open: 1 event waits in it"


def flows(run: Run) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(run("workflow", "--json").stdout)}


def test_a_workflow_that_is_gone_from_the_program_says_so_and_what_to_do(run: Run, post: Post) -> None:
    post.work("a", boxes=("c=wrong",))
    Path("letters.py").write_text(FEWER, encoding="utf-8")
    with hosting() as host:
        host.begun()
        assert f"post.parcels: {GONE}" in host.said()
        found = flows(run)
        assert not found["post.letters"]["gone"]
        gone = found["post.parcels"]
        assert (gone["gone"], gone["state"], gone["hosted"]) == (True, "Stopped", False)
        assert (gone["next_at"], gone["due_at"]) == (None, None), "its schedule is not used"
        assert gone["sentence"].startswith(f"{GONE}. Bring it back into the program, or put it out of the way: ")
        shown = json.loads(run("workflow", "show", "parcels", "--json").stdout)
        assert shown["hints"][-1] == "headwater workflow pause post.parcels"
        run("workflow", "pause", "parcels")
        shown = json.loads(run("workflow", "show", "parcels", "--json").stdout)
        assert shown["hints"][-1] == "headwater workflow archive post.parcels"
        run("workflow", "archive", "parcels")
        assert list(flows(run)) == ["post.letters"]
        host.end()
    assert not json.loads(run("workflow", "ls", "--all", "--json").stdout)[1]["gone"], "it is unknown without a program"


def test_an_app_without_any_workflow_left_says_so_too(run: Run, post: Post) -> None:
    post.work("a=ask")
    Path("letters.py").write_text('import headwater as hw\napp = hw.App("post")\n', encoding="utf-8")
    with hosting() as host:
        host.begun()
        assert "post.letters: It is in the file, but not in the program that has it open: 1 event waits" in host.said()
        assert [each["gone"] for each in flows(run).values()] == [True, True]
        host.end()
