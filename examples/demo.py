"""What Headwater can do so far, in half a minute: documents that survive anything. Run it with `./hw demo`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from headwater.core import (
    Add,
    Append,
    Increment,
    Notification,
    PatchDoc,
    Replace,
    Seq,
    SetDoc,
    address_text,
    array_of,
    doc_key,
    freeze,
    open_space,
    read,
    verify,
)

LIST = doc_key("shopping")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder:
        path = Path(folder) / "home.db"
        two_people_one_list(path)
        the_past_and_a_branch(path)
        pull_the_plug(Path(folder) / "plug.db")
    print("\nNext: README.md, then `./hw run --help`.")


def two_people_one_list(path: Path) -> None:
    title("Two people, one list: each write is visible at once, the store decides who was first")
    with open_space(str(path)) as space:
        ann, bob = space.attach(), space.attach()
        ann.commit([SetDoc(LIST, freeze({"items": ["milk"], "budget": 20, "taken_by": None}))])
        ann.sync()
        bob.refresh()
        ann.listen(lambda notification: tell("Ann", notification))
        bob.listen(lambda notification: tell("Bob", notification))

        print("\nDifferent things at the same time: both land.")
        ann.commit([PatchDoc(LIST, (Append(("items",), array_of(["tea"])),))])
        bob.commit([PatchDoc(LIST, (Increment(("budget",), 5),))])
        ann.sync()
        bob.sync()

        print("\nThe same thing at the same time: both looked, both saw nobody, both took it.")
        seen_by_ann = ann.read_mark(LIST, ("taken_by",))
        seen_by_bob = bob.read_mark(LIST, ("taken_by",))
        first = ann.commit([PatchDoc(LIST, (Replace(("taken_by",), "Ann"),))], reads=[seen_by_ann])
        second = bob.commit([PatchDoc(LIST, (Replace(("taken_by",), "Bob"),))], reads=[seen_by_bob])
        ann.sync()
        bob.sync()
        print(f"  Ann's verdict: {type(first.verdict).__name__}, Bob's: {type(second.verdict).__name__}")


def the_past_and_a_branch(path: Path) -> None:
    title("The log is the truth: the past can be read, and a branch costs one row")
    with open_space(str(path)) as space:
        for seq in (Seq(1), Seq(3)):
            found = space.call(partial(read, doc=LIST, at=seq))
            print(f"  as of commit {seq}:", found.value)
        space.fork("party")
        there = space.attach(branch="party")
        there.commit([PatchDoc(LIST, (Add(("guests",), 12), Replace(("budget",), 200)))])
        there.sync()
        here = space.attach()
        print("  on main:    ", here.read(LIST))
        print("  on party:   ", there.read(LIST))
        space.merge("party")
        here.refresh()
        print("  merged:     ", here.read(LIST))
        report = space.call(verify)
        print(
            f"  verify:      {report.commits} commits, {report.documents} documents, findings: {len(report.findings)}"
        )


def pull_the_plug(path: Path) -> None:
    title("Pull the plug: a process is killed while it writes, un-synced bytes lost as in a power cut")
    confirmed = 0
    for turn in range(1, 4):
        child = subprocess.Popen(
            [sys.executable, __file__, "write-until-killed", str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "HEADWATER_VFS": "powerloss"},
        )
        assert child.stdout is not None
        for _ in range(150):
            confirmed = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.readlines():
            if line.endswith(b"\n"):
                confirmed = int(line)
        child.wait()
        with open_space(str(path)) as space:
            found = space.attach().read(doc_key("counter"))
            ok = space.call(verify).ok
        assert isinstance(found, int)
        assert found >= confirmed
        assert ok
        print(f"  kill {turn}: {confirmed} confirmed before the cut, {found} found after it, verify: ok")


def write_until_killed(path: str) -> None:
    with open_space(path) as space:
        replica = space.attach()
        while True:
            replica.commit([PatchDoc(doc_key("counter"), (Increment((), 1),))])
            replica.sync()
            print(replica.read(doc_key("counter")), flush=True)


def tell(who: str, notification: Notification) -> None:
    for change in notification.changes:
        place = address_text(change.doc, change.path)
        print(f"  {who} sees ({notification.kind.value}): {place}: {change.before!r} -> {change.after!r}")


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["write-until-killed"]:
        write_until_killed(sys.argv[2])
    else:
        main()
