"""One space for one login: a thread that answers questions, carries deeds out, and notices changes.

Asks for changes only while a question is watched. A file that no program has open is opened for each answer, and
released at once, since only one process can have it open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from headwater.errors import HeadwaterError, UnavailableError
from headwater.inspect.inspector import Inspector
from headwater.inspect.space_records import GetPulse
from headwater.machine import Future, machine
from headwater.studio import acting, answers
from headwater.studio.answering import SpaceAnswers, intent, is_of_functions
from headwater.studio.deed_words import words_of
from headwater.studio.deeds import Acted, RecordDeed
from headwater.studio.feed_jobs import FeedJobs, Job
from headwater.studio.folder_answers import spaces
from headwater.studio.host import Login, StudioHost
from headwater.studio.passes import Recording
from headwater.studio.questions import IntentQuestion, Passes, PassQuestion, Spaces, StudioQuestion

log: Final = logging.getLogger("headwater.studio")

POLL_S: Final = 0.025
"""Seconds between two questions for changes of an open space, while something changes."""

IDLE_POLL_S: Final = 0.1
"""The same when nothing has changed for a while."""

QUIET_S: Final = 3.0
"""Seconds without a change after which looks are rarer."""

CLOSED_POLL_S: Final = 0.25
"""Seconds between two looks for the socket of a closed file."""

PULSE_S: Final = 0.016
"""Seconds between two looks that the program asks for: a screen draws no more often."""

FRESH_S: Final = 0.01
"""Seconds for which a mark counts: a change and the answers that follow from it take one."""

REST: Final = 20
"""The pause after a look, in durations of the look: watching costs the program a twentieth at most."""

SLOW_S: Final = 0.05
"""Seconds from which an answer is slow: it reads very many documents or functions."""

SLOW_REST: Final = 20
"""The pause after a slow answer, in durations of the answer."""

QUICK_REST: Final = 2
"""The same after a quick one, most of which is spent in the Studio itself."""

BUSY_S: Final = 0.3
"""Seconds after which a running function is named."""

_REMEMBERED: Final = 64
"""Answers of one moment that are given to several tabs."""

_REMEMBERED_BYTES: Final = 1024 * 1024
"""Bytes of an answer beyond which it is made anew: a document that is loaded whole has up to 16 MiB."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with what is known of its moment."""

    mark: str
    seq: int
    at_ms: int
    live: str
    busy: str
    record: bytes | None
    """None: nothing has changed since the given mark, or the program has ended and the last record stays."""
    view: object = None
    took_s: float = 0.0
    """Seconds that the answer took; 0: another tab had asked the same."""

    @property
    def rest_s(self) -> float:
        """Seconds to wait before the same question: a slow answer holds the store, or the program."""
        return self.took_s * (SLOW_REST if self.took_s > SLOW_S else QUICK_REST)


class SpaceFeed:
    """See the module."""

    def __init__(self, host: StudioHost, login: Login, space: str, branch: str) -> None:
        self._host = host
        self._login = login
        self._space = space
        self._branch = branch
        self._answers = SpaceAnswers(host.url(space))
        self._jobs = FeedJobs()
        self._listeners: set[Callable[[], None]] = set()
        self._inspector: Inspector | None = None
        self._live = ""
        self._mark = ""
        self._seq = 0
        self._at_ms = 0
        self._busy = ""
        self._busy_since = 0.0
        self._has_acted = False
        self._changed_at = 0.0
        self._pulsed_at = 0.0
        self._look_s = 0.0
        self._remembered: dict[bytes, tuple[str, bytes, object]] = {}
        self._recording = Recording(lambda record: host.follow(login, space, record))
        self._rung = False
        self._end_pulses: Callable[[], None] | None = None
        self.looks = 0
        """How often the space was asked for changes: for tests."""
        self._thread = machine().thread(self._run, name="headwater-studio-feed")
        self._thread.start()

    # -- in any thread -------------------------------------------------------------------------------------

    def ask(self, question: StudioQuestion, mark: str = "", *, rung: bool = False) -> Future[Answered]:
        """The answer to a question. The future has the error, if it is refused.

        `rung`: it follows from a change that this feed has just seen, so its mark need not be read again.
        """
        return self._jobs.add(lambda: self._answer(question, mark, rung=rung))

    def do(self, deed: Acted) -> Future[answers.DeedReport]:
        """Carry a deed out."""
        return self._jobs.add(lambda: self._do(deed))

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed`, in the thread of the feed, when another answer may be due. Returns what ends it."""
        self._listeners.add(changed)
        self._jobs.look()
        return lambda: self._unlisten(changed)

    def _unlisten(self, changed: Callable[[], None]) -> None:
        self._listeners.discard(changed)
        # The last one ends what the program does for this Studio.
        self._jobs.look()

    def close(self) -> None:
        """End the thread."""
        self._jobs.stop()
        if self._thread is not machine().current_thread():
            self._thread.join(5.0)

    def _ring(self) -> float:
        """A pass has ended, in the program. Called in another thread. Returns the pause before the next."""
        if not self._rung:
            self._rung = True
            self._jobs.look()
        return max(PULSE_S, self._look_s * REST)

    # -- in the thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            job = self._jobs.next(self._pause())
            if job == "stop":
                self._recording.stop()
                self._listeners.clear()
                self._watch_passes()
                self._release()
                return
            if job == "look":
                self._look()
                continue
            if not isinstance(job, Job) or not job.carry_out():
                continue
            # Also if the first question was refused, or the program has ended just now: a file is not held between two.
            if self._live in ("closed", "ended") or (self._inspector is not None and self._inspector.holds_file):
                self._release()

    def _pause(self) -> float | None:
        pause, left = self._pause_of_looks(), self._recording.left_s
        return pause if left is None else left if pause is None else min(pause, left)

    def _pause_of_looks(self) -> float | None:
        if not self._listeners:
            return None
        if self._live in ("closed", "ended"):
            return CLOSED_POLL_S
        quiet = self._end_pulses is not None or machine().monotonic() - self._changed_at > QUIET_S
        return max(IDLE_POLL_S if quiet else POLL_S, self._look_s * REST)

    def _release(self) -> None:
        """Release the file, or end the connection."""
        inspector, self._inspector = self._inspector, None
        if inspector is not None:
            with suppress(HeadwaterError, OSError):
                inspector.close()

    def _reached(self) -> Inspector:
        if self._inspector is None:
            self._inspector = self._host.inspector(self._login, self._space, self._branch)
        return self._inspector

    def _watch_passes(self) -> None:
        """From now on the program wakes this thread; or not any more."""
        wanted = bool(self._listeners) and self._live == "live"
        if wanted and self._end_pulses is None:
            self._end_pulses = self._host.pulses(self._login, self._space, self._ring)
        elif not wanted and self._end_pulses is not None:
            end, self._end_pulses = self._end_pulses, None
            end()

    def _look(self) -> None:
        """See whether the space has changed, was opened or closed, and notify the tabs."""
        self._rung = False
        self._recording.end_in_time()
        self._watch_passes()
        if not self._listeners:
            return
        has_acted, self._has_acted = self._has_acted, False
        if self._live in ("closed", "ended") and not has_acted:
            if self._host.state(self._login, self._space) != "closed":
                self._release()
                self._pulse_and_notify()
            return
        self._pulse_and_notify()

    def _pulse_and_notify(self) -> None:
        before = self._live, self._mark, self._busy
        begin = machine().monotonic()
        self.looks += 1
        try:
            self._pulse()
        except (HeadwaterError, OSError) as error:
            log.debug("space %r cannot be read: %s", self._space, error)
            self._live, self._changed_at = "ended" if self._live == "live" else "closed", begin
        self._look_s = machine().monotonic() - begin
        if self._live in ("closed", "ended"):
            self._release()
        if (self._live, self._mark, self._busy) != before:
            self._changed_at = machine().monotonic()
            for changed in tuple(self._listeners):
                changed()

    def _pulse(self) -> None:
        """Read the mark, the newest commit and whether it is live."""
        inspector = self._reached()
        self._pulsed_at = machine().monotonic()
        pulse = inspector.ask(GetPulse())
        state = self._host.state(self._login, self._space) if self._live != "live" or not inspector.is_live else "live"
        if state == "closed" and self._live in ("live", "ended"):
            state = "ended"
        self._live, self._mark, self._seq, self._at_ms = state, pulse.mark, pulse.seq, pulse.at_ms
        now = machine().monotonic()
        running = pulse.running[-1] if pulse.running else ""
        if not running:
            self._busy_since, self._busy = now, ""
        elif now - self._busy_since > BUSY_S:
            self._busy = running

    def _answer(self, question: StudioQuestion, mark: str, *, rung: bool) -> Answered:  # noqa: PLR0911  # one for each source
        if isinstance(question, IntentQuestion):
            of_host = self._host.intents.get(str(question.deed.__struct_config__.tag))
            why_not = self._why_not(question.deed)
            view: object = (
                intent(question, url=self._answers.url, why_not=why_not)
                if of_host is None
                else of_host(self._login, question.deed)
            )
            return self._answered(msgspec.json.encode(view), view)
        own = self._host.questions.get(str(question.__struct_config__.tag))
        if own is not None:
            return self._timed(lambda: own(self._login, question))
        if isinstance(question, Passes):
            view = self._recording.listed(question)
            return self._answered(msgspec.json.encode(view), view)
        if isinstance(question, PassQuestion):
            names, boxes = self._answers.node_names(self._reached())
            view = self._recording.shown(question, names, boxes)
            return self._answered(msgspec.json.encode(view), view)
        if isinstance(question, Spaces):
            return self._timed(lambda: spaces(self._host, self._login, question))
        if not rung or self._live != "live" or machine().monotonic() - self._pulsed_at > FRESH_S:
            self._pulse()
        if self._live == "ended" and is_of_functions(question):
            return self._answered(None, None)
        if mark and mark == self._mark:
            return self._answered(None, None)
        key = msgspec.json.encode(question)
        known, took_s = self._remembered.get(key), 0.0
        if known is None or known[0] != self._mark:
            begin = machine().monotonic()
            view = self._answers.answer(self._reached(), question, seq=self._seq)
            known = self._mark, msgspec.json.encode(view), view
            took_s = machine().monotonic() - begin
            self._remember(key, known)
        return self._answered(known[1], known[2], took_s)

    def _remember(self, key: bytes, known: tuple[str, bytes, object]) -> None:
        self._remembered.pop(key, None)
        if len(key) + len(known[1]) > _REMEMBERED_BYTES:
            return
        while len(self._remembered) >= _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[key] = known

    def _timed(self, work: Callable[[], object]) -> Answered:
        """An answer of the host, which may read many files: the pause after it depends on its time, too."""
        begin = machine().monotonic()
        view = work()
        return self._answered(msgspec.json.encode(view), view, machine().monotonic() - begin)

    def _answered(self, record: bytes | None, view: object, took_s: float = 0.0) -> Answered:
        return Answered(
            mark=self._mark,
            seq=self._seq,
            at_ms=self._at_ms,
            live=self._live or "closed",
            busy=self._busy,
            record=record,
            view=view,
            took_s=took_s,
        )

    def _why_not(self, deed: Acted) -> str:
        """Why a deed is not possible; empty: it is."""
        return refusal(self._host, self._login, self._space, deed)

    def _do(self, deed: Acted) -> answers.DeedReport:
        why_not = self._why_not(deed)
        sentence, failure = "", why_not
        try:
            if why_not:
                raise UnavailableError(why_not)
            own = self._host.deeds.get(str(deed.__struct_config__.tag))
            report: Any = (
                own(self._login, deed)
                if own is not None
                else self._record(deed)
                if isinstance(deed, RecordDeed)
                else acting.carry_out(self._reached(), deed, actor=self._login.actor, place=self._answers.url)
            )
            assert isinstance(report, answers.DeedReport)
            sentence = report.sentence
        except HeadwaterError as error:
            failure = str(error)
            raise
        finally:
            # Also if it names no space, and means the first.
            self._host.record(self._login, msgspec.structs.replace(deed, space=self._space), sentence, failure)
        # Seen at once, also by the other tabs, and of a closed file, in which nothing else changes.
        self._has_acted = True
        self._jobs.look()
        return report

    def _record(self, deed: RecordDeed) -> answers.DeedReport:
        """Begin or end a recording."""
        if not deed.on:
            self._recording.stop()
            return answers.DeedReport(sentence="runs are not recorded any more", command="")
        self._recording.start()
        line = words_of(deed).line(self._answers.url)
        return answers.DeedReport(sentence="each run is recorded for ten minutes", command=line)


_OWNERS: Final = ("drop", "skip", "abandon", "revoke")


def refusal(host: StudioHost, login: Login, space: str, deed: Acted) -> str:
    """Why a login may not do a deed; empty: it may."""
    tag = str(deed.__struct_config__.tag)
    if host.read_only:
        return "this Studio is read-only"
    if not login.may_write:
        return "your rights are to read: an owner can give you others"
    is_owners = getattr(deed, "force", False) or getattr(deed, "act", "") in _OWNERS
    if is_owners and login.rights != "own":
        return "only an owner may do this"
    return host.cannot(login, space).get(tag, "")
