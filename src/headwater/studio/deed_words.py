"""What a deed is about to do, in a sentence; the button; and the same deed on the command line."""

from __future__ import annotations

from shlex import quote
from typing import Final

import msgspec

from headwater.studio import deeds

_RUN: Final[dict[str, tuple[str, str]]] = {
    "approve": ("Approve", "Run {number} goes on: what it is about is done."),
    "reject": ("Reject", "Run {number} is not done; what it was about is skipped."),
    "retry": ("Retry", "Run {number} is tried again now."),
    "cancel": ("Cancel run", "Run {number} is given up; what it was about is skipped."),
    "abandon": ("Abandon", "Run {number} is put aside with its result, and the workflow goes on without it."),
    "applied": (
        "It happened",
        "The call of run {number} counts as done, with this result; the run goes on from there.",
    ),
    "not_applied": ("It did not happen", "The call of run {number} counts as not done; it is planned anew."),
    "skip": ("Skip", "Run {number} goes on without its call, whatever became of it."),
    "again": ("Look again", "Whether the call of run {number} happened is looked up once more."),
}

_WORKFLOW: Final[dict[str, tuple[str, str]]] = {
    "pause": ("Pause", "{name} starts nothing any more, and what comes in waits."),
    "resume": ("Resume", "{name} goes on."),
    "now": ("Run now", "{name} looks for something to do now."),
    "archive": ("Archive", "{name} disappears from lists; what it has stays, and it can be restored."),
    "restore": ("Restore", "{name} is back, and paused."),
    "reprocess": ("Reprocess", "Everything of {name} that was put aside waits again."),
}

_INPUT: Final[dict[str, tuple[str, str]]] = {
    "skip": ("Skip", "Input {number} is not handled any more, and no event of it."),
    "retry": ("Retry", "What was put aside of input {number} waits again."),
}

_TEXT_MAX: Final = 200
"""Characters of a value that a sentence repeats."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one deed."""

    button: str
    sentence: str
    command: tuple[str, ...]
    asks: bool = False

    def line(self, place: str) -> str:
        """The command line, for the space at this place."""
        where = ("--url", place) if place else ()
        return " ".join(map(quote, ("headwater", *self.command, *where)))


def words_of(deed: deeds.Acted) -> Words:  # noqa: PLR0911  # one for each deed
    """The words of a deed."""
    on = () if deed.branch == "main" else ("--branch", deed.branch)
    match deed:
        case deeds.SetDeed():
            verb = "is stored, although it may not fit the declared type" if deed.force else "is stored"
            return Words(
                button="Store",
                sentence=f"{deed.address} becomes {_short(deed.text)}; it {verb} as one commit.",
                command=(
                    *("set", deed.address, deed.text),
                    *(("--create",) if deed.create else ()),
                    *(("--force",) if deed.force else ()),
                    *on,
                ),
                asks=deed.force,
            )
        case deeds.DeleteDeed():
            return Words(
                button="Delete",
                sentence=f"{deed.address} is deleted. Its history stays: an old value can be put back.",
                command=("set", deed.address, "--delete", *on),
                asks=True,
            )
        case deeds.RestoreDeed():
            return Words(
                button="Put back",
                sentence=f"{deed.address} becomes what it was at commit {deed.at}, as a new commit.",
                command=(),
            )
        case deeds.ForkDeed():
            at = "now" if deed.at is None else f"at commit {deed.at}"
            return Words(
                button="Fork",
                sentence=f"A branch {deed.name} starts from {deed.branch} {at}; {deed.branch} stays as it is.",
                command=(
                    "fork",
                    deed.name,
                    "--from",
                    deed.branch,
                    *(() if deed.at is None else ("--at", str(deed.at))),
                ),
            )
        case deeds.MergeDeed():
            return Words(
                button="Merge",
                sentence=f"What {deed.branch} changed is changed in {deed.into}, too, as one commit. "
                "If both changed the same document, nothing is done.",
                command=("merge", deed.branch, *(() if deed.into == "main" else ("--into", deed.into))),
                asks=True,
            )
        case deeds.SendDeed():
            name = ("--id", deed.id) if deed.id else ()
            return Words(
                button="Send",
                sentence=f"An event is sent to {deed.handler}, and handled as any other.",
                command=("send", deed.handler, "--json", deed.fields, *name),
            )
        case deeds.EventDeed(act="redeliver"):
            return Words(
                button="Redeliver",
                sentence=f"Event {deed.event} is delivered again, with the same payload.",
                command=("events", "redeliver", deed.event),
            )
        case deeds.EventDeed():
            return Words(
                button="Drop",
                sentence=f"Event {deed.event} is deleted: it will never be handled.",
                command=("events", "drop", deed.event),
                asks=True,
            )
        case deeds.ResendDeed():
            return Words(
                button="Send again with changes",
                sentence=f"A new event with this payload is sent to the handler of {deed.event}; "
                "the failed one stays until it is dropped.",
                command=(),
            )
        case _:
            return _other_words(deed)


def _other_words(deed: deeds.Acted) -> Words:  # noqa: PLR0911  # likewise
    match deed:
        case deeds.RunDeed():
            button, sentence = _RUN[deed.act]
            reason = ("--reason", deed.reason) if deed.reason else ()
            return Words(
                button=button,
                sentence=sentence.format(number=deed.number),
                command=(*_run_command(deed), *reason),
                asks=deed.act in ("reject", "cancel", "abandon", "skip"),
            )
        case deeds.WorkflowDeed():
            button, sentence = _WORKFLOW[deed.act]
            return Words(
                button=button,
                sentence=sentence.format(name=deed.workflow),
                command=("workflow", deed.act, deed.workflow),
                asks=deed.act == "archive",
            )
        case deeds.InputDeed():
            button, sentence = _INPUT[deed.act]
            return Words(
                button=button,
                sentence=sentence.format(number=deed.number),
                command=("inputs", deed.act, str(deed.number)),
                asks=deed.act == "skip",
            )
        case deeds.PublishDeed():
            name = ("--id", deed.id) if deed.id else ()
            return Words(
                button="Publish",
                sentence=f"{_short(deed.text)} is published to {deed.workflow}.{deed.topic}.",
                command=("publish", deed.workflow, deed.topic, deed.text, *name),
            )
        case deeds.RefetchDeed():
            return Words(button="Refetch", sentence=f"{deed.resource} is requested now.", command=())
        case deeds.RecordDeed(on=True):
            return Words(
                button="Record",
                sentence="Each run is recorded for ten minutes. The program is slower meanwhile, by about a fifth.",
                command=("trace", "--follow"),
            )
        case deeds.RecordDeed():
            return Words(button="Stop", sentence="Runs are not recorded any more.", command=())
        case _:
            tag = str(deed.__struct_config__.tag)
            return Words(button=tag.capitalize(), sentence=f"{tag} is done.", command=())


def _run_command(deed: deeds.RunDeed) -> tuple[str, ...]:
    number = str(deed.number)
    match deed.act:
        case "approve" | "reject":
            return deed.act, number
        case "retry" | "cancel" | "abandon":
            return "runs", deed.act, number
        case "applied":
            return "reconcile", number, "--applied", deed.text
        case act:
            return "reconcile", number, f"--{act.replace('_', '-')}"


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"
