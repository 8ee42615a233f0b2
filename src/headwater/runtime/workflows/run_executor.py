"""Executes one run: its phases in order, each with the author's code for it, each stored before the next begins.

Failures are classified here, where they happen. Whatever an author's function raises, catches or returns late can only
end its own run.

Length: the phases of a run, in their order; each needs the stored result of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from headwater.cells.context import CONTEXT
from headwater.cells.detached_value import DetachedValue
from headwater.cells.transaction import Transaction
from headwater.declare.workflows.consumer import Consumer
from headwater.declare.workflows.current_run import CURRENT_RUN, HandlerPhase
from headwater.declare.workflows.failure_classes import LateError, failure_text
from headwater.declare.workflows.handler_specs import ConsumerDeclaration, Producer, answered_bytes, operation_of
from headwater.declare.workflows.plan import (
    Applied,
    NotApplied,
    PendingEvents,
    Plan,
    Unknown,
    wake_ms,
)
from headwater.declare.workflows.run_handle import MutationRequested, Run
from headwater.errors import (
    HeadwaterError,
    IndeterminateError,
    InvariantError,
    LogicError,
    StoreError,
    TransientError,
    TransitionError,
    WorkflowError,
)
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.external_calls import (
    can_reconcile,
    is_sent_again,
    own_operation,
    reconciles,
    settle,
    stored_call,
)
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.runtime.workflows.run_context import RunContext
from headwater.runtime.workflows.run_ending import Ending
from headwater.runtime.workflows.run_host import RunHost
from headwater.runtime.workflows.timed_call import ElapsedError
from headwater.values.codec import decode, encode
from headwater.values.ids import Millis
from headwater.workflow import transitions
from headwater.workflow.operator_actions import digest_of, plan_digest
from headwater.workflow.retry_policy import DEFAULT
from headwater.workflow.rows import EffectOutcome, EventRow, FailureKind, RunPhase, RunRow, RunStatus
from headwater.workflow.run_lanes import within
from headwater.workflow.run_recovery import recover
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import Begun, Later, Next, Prepared, RunFailure
from headwater.workflow.workflow_limits import CONFLICT_MS
from headwater.workflow.workflow_transaction import FIRST_STEP, WorkflowTransaction

T = TypeVar("T")

_PREPARE_ONLY: Final = "{run} only reads: it cannot write {}; write cells in next"
_MUTATE_ONLY: Final = "{run} acts outside: it cannot write {}; write cells in next"

Await = Callable[[Coroutine[Any, Any, Any], float], Any]
"""Runs a coroutine to its end, for at most this many seconds."""


_WAITS_MAX: Final = 100
"""How often a run waits for the rate of its consumer, before it is stopped and begins again later."""

_WAIT_MS: Final = 100
"""One such wait, at most: a host that stops does not wait for long."""


class Performance(Ending):
    """One active run. `execute` returns whatever happens in it."""

    def __init__(self, hub: Hub, hosted: Hosted, begun: Begun, awaiting: Await) -> None:
        super().__init__(begun.run.id, hosted.spec.name)
        self.hub = hub
        self.hosted = hosted
        self.space: RunHost = hosted.space
        self.begun = begun
        self.row: RunRow = begun.run
        self.handler: ConsumerDeclaration | Producer = self._handler()
        self.run = Run(begun.flow, begun.run, self.handler.uses, self.handler.retry.on, warn=log.warning)
        self._await = awaiting
        self.operation = ""
        # The plan that was made here, as `mutate` gets it.
        self.data: Any = None
        # `next` is running.
        self.is_emitting = False
        self.doing: HandlerPhase | None = None
        self.seconds: dict[str, float] = dict(self.handler.timeouts.seconds)
        # The result of the call, while it may not be on disk; and the transaction that writes it alone.
        self._answer: bytes | None = None
        self._posted: WorkflowTransaction | None = None
        # The run that begins in the transaction that ends this one, if no other workflow waits.
        self.then: Callable[[str, str, WorkflowTables], Next] | None = None
        self.followed_by: Next | None = None

    def _handler(self) -> ConsumerDeclaration | Producer:
        flow, row = self.hosted.flow, self.row
        found: ConsumerDeclaration | Producer
        found = flow.consumers[row.handler] if row.kind == "consumer" else flow.producers[row.handler]
        patched = self.hosted.patched.get(row.handler)
        return found if patched is None else patched

    # -- all of it -----------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Execute the run from its phase to its end, or to where it stops."""
        try:
            if isinstance(self.handler, Producer):
                self._produce(self.handler)
            else:
                self._consume(self.handler)
        except TransitionError as error:
            self._ended(error)
        except StoreError:
            # Only what is on disk counts: the next opening continues from it.
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  # also what would end a program: here it ends the run
            self._failed(error)

    def _ended(self, error: TransitionError) -> None:
        """Another transaction has ended the run: it was paused, or given up as late. This is no failure of the run."""
        run_id = self.row.id
        if error.facts.get("stopped"):
            self._fail(RunFailure(kind=FailureKind.STOPPED, message=error.message))
        else:
            log.info("run %s: %s", run_id, error.message)
            # W8: or the disk has refused the outcome of its call, which is not awaited: it must not stay active.
            self._do(lambda tables: recover(tables, run_id))

    def _consume(self, handler: ConsumerDeclaration) -> None:
        consumer = handler.kind()
        consumer.run = self.run
        consumer.state = self._state(handler.types.state, handler.types.default)
        if self.row.phase == RunPhase.PREPARING:
            plan = self._prepare(handler, consumer)
            if plan is None:
                return
        if self.row.phase == RunPhase.PREPARED and self.row.taken and self.row.cancelled:
            # Cancelled during `prepare`: also for a run that asks first, or has nothing to call.
            self.row = self._do(lambda tables: transitions.skipped(tables, self.row.id))
        if self.row.phase == RunPhase.PREPARED and self.row.ask and self.row.approval != plan_digest(self.row):
            self.row = self._do(lambda tables: transitions.ask(tables, self.row.id))
            return
        acts = self.row.phase in (RunPhase.PREPARED, RunPhase.MUTATING) and self.row.taken and handler.has_mutate
        if acts and not self._mutate(handler, consumer):
            return
        try:
            self._next(handler, consumer)
        except TransitionError as error:
            if not error.facts.get("cancelled"):
                raise
            # Cancelled during `next` of a run without a call: it is reported, and its writes are not kept.
            self.space.catch_up()
            self.row = self._do(lambda tables: transitions.skipped(tables, self.row.id))
            self._next(handler, consumer)

    # -- calling authors -----------------------------------------------------------------------------------

    def _call(self, doing: HandlerPhase, phase: str, fn: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        """Call a function of the author with its context, for at most the time of its phase."""
        run = self.run
        run.doing = self.doing = doing
        run.failed = None
        seconds = self.seconds[phase]
        self.may_take(seconds)
        token = CURRENT_RUN.set(run)
        try:
            result = fn(*args)
            if isawaitable(result):
                result = self._wait(result, seconds)
        finally:
            CURRENT_RUN.reset(token)
            frame = CONTEXT.get()
            if frame is not None and frame.tx is not None and frame.tx.refused:
                # Even if the handler caught it, as every violation of the phases.
                run.violated(frame.tx.refused)
            self.comes_back()
            run.doing = self.doing = None
        return result

    def _wait(self, awaitable: Any, seconds: float) -> Any:  # noqa: ANN401  # whatever the author awaits
        async def awaited() -> Any:  # noqa: ANN401
            return await awaitable

        try:
            return self._await(awaited(), seconds)
        except ElapsedError:
            raise LateError(f"{self._named()} took longer than {seconds:g} s") from None

    def _inside(self, read_only: str, work: Callable[[], T]) -> T:
        """Run code in a transaction that only reads."""
        tx = self.space.begin(self._title(), read_only=read_only)
        try:
            with RunContext(self.space, tx, self.row.id):
                return work()
        finally:
            if tx.is_open:
                tx.abort()

    # -- producing -----------------------------------------------------------------------------------------

    def _produce(self, producer: Producer) -> None:
        given: dict[str, object] = {}
        if producer.run_at is not None:
            given[producer.run_at] = self.run
        if producer.state_at is not None and producer.state is not None:
            given[producer.state_at] = self._state(producer.state, producer.default)

        def work() -> bytes | None:
            returned = self._call(HandlerPhase.PRODUCE, "produce", lambda: producer.fn(**given))
            self._check_violation()
            if returned is None or producer.state is None:
                return None
            return encode(producer.state.to_tree(returned))

        self._land(work, lambda tables, state: transitions.produced(tables, self.row.id, state, self.hosted.spec))

    # -- preparing -----------------------------------------------------------------------------------------

    def _prepare(self, handler: ConsumerDeclaration, consumer: Consumer[Any, Any, Any]) -> Plan[Any] | None:
        """The stored plan. None: there was nothing to do."""
        first = self.begun.events
        more = partial(self._more, handler) if self.row.offered > len(first) else None
        pending: PendingEvents[Any] = PendingEvents(first, lambda row: self._event(handler, row), more)

        def work() -> Plan[Any]:
            made = self._call(HandlerPhase.PREPARE, "prepare", consumer.prepare, pending)
            self._check_violation()
            if not isinstance(made, Plan):
                raise LogicError(f"{handler.name}.prepare returned {made!r}; a hw.Plan is expected, or hw.Plan.idle()")
            stray = pending.foreign_event(made.take)
            if stray is not None:
                raise LogicError(f"{handler.name} cannot take {stray!r}: prepare was not given it now")
            return made

        plan = self._inside(_PREPARE_ONLY, work)
        now = self.hub.now()
        wake = wake_ms(plan.wake, now)
        if plan.is_idle:
            kept = Prepared(result=encode(None), wake_at=wake)
            self._do(lambda tables: transitions.idle(tables, self.row.id, kept, self.hosted.spec))
            return None
        result = encode(handler.types.data.to_tree(plan.data))
        # A value that changes when it is stored and loaded is found before anything is called with it.
        self.plan = decode(result)
        self.data = self._data(handler)
        approval = digest_of(result) if plan.ask else None
        acts_itself = handler.has_mutate and not handler.by_call and not self.is_stopping
        kept = Prepared(
            events=tuple(event.number for event in plan.take),
            result=result,
            title=plan.title[:500],
            wake_at=wake,
            approval=approval,
            acts=own_operation(handler) if acts_itself else None,
        )
        try:
            self.row = self._do(lambda tables: transitions.prepared(tables, self.row.id, kept, self.hosted.spec))
        except LogicError as error:
            # All events were given, and one was skipped since. That is no error; the run is planned again.
            raise TransitionError(error.message, stopped=True) from None
        self.run.title = self.row.title
        return plan

    def _more(self, handler: ConsumerDeclaration) -> list[EventRow]:
        """Events that were not read when the run began. Newer ones may replace events that are gone."""
        last, lane = self.begun.events[-1].rank, within(self.row.lane)
        found = self.hub.look(
            lambda tables: tables.pending(self.row.flow, list(handler.topics), self.row.offered, lane)
        )
        return [event for event in found if event.rank > last]

    # -- acting --------------------------------------------------------------------------------------------

    def _mutate(self, handler: ConsumerDeclaration, consumer: Consumer[Any, Any, Any]) -> bool:
        """Make the one call. Returns whether the run continues."""
        data = self._data(handler) if self.data is None else self.data
        if not handler.by_call:
            return self._act(
                own_operation(handler),
                self.row.prepare_result or b"",
                lambda: self._call(HandlerPhase.MUTATE, "mutate", consumer.mutate, self.run, data),
                handler.types.result,
            )
        returned: object = None
        try:
            returned = self._inside(
                _MUTATE_ONLY, lambda: self._call(HandlerPhase.MUTATE, "mutate", consumer.mutate, self.run, data)
            )
        except MutationRequested:
            pass
        except Exception as error:
            # Whatever `mutate` caught or raised: only the requested call counts.
            self._check_violation()
            if self.run.mutation_call is None and isinstance(error, WorkflowError):
                raise
            if self.run.mutation_call is None:
                # Not retried automatically: an effect made here, against the rules, must not be repeated.
                raise LogicError(
                    f"{handler.name}.mutate failed before it called anything: {failure_text(error)}"
                ) from error
        self._check_violation()
        if self.run.mutation_call is None and returned is not None:
            message = (
                f"{handler.name}.mutate returned {returned!r} and has called nothing: run.call(...) says what to call"
            )
            raise LogicError(f"{message}; if it acts itself, declare @flow.consumer(..., acts=True)")
        if self.run.mutation_call is None:
            return True
        called, args, kwargs = self.run.mutation_call
        asked = called.params(*args, **kwargs)
        named = called.named(args, kwargs, self.run.key)

        def call() -> Any:  # noqa: ANN401  # what the operation returns
            return self._call(HandlerPhase.MUTATE, "mutate", lambda: called.fn(**named))

        return self._act(called.name, encode(asked), call, called.result)

    def _act(self, operation: str, params: bytes, call: Callable[[], Any], result: DetachedValue) -> bool:
        """L11: from here to the end of this function, the outcome of the call is unknown."""
        self.operation = operation
        if self.row.phase != RunPhase.MUTATING:
            if self.is_stopping:
                raise TransitionError("the host ends before the run has acted", stopped=True)
            # W6: on disk before the call leaves.
            self.row = self._take_off(operation, params)
        if self.row.outcome == EffectOutcome.SKIPPED:
            return True
        try:
            answer = self._inside(_MUTATE_ONLY, call)
        except WorkflowError as error:
            if not error.definite:
                return self._doubtful(error)
            self._undone(error)
            return False
        except StoreError:
            raise
        except KeyboardInterrupt:
            # The process is about to end: the unknown outcome is on disk.
            raise
        except BaseException as error:  # noqa: BLE001  # whatever was raised: the call may have left before
            return self._doubtful(error)
        return self._answered(answer, result)

    def _take_off(self, operation: str, params: bytes) -> RunRow:
        """The run with its call about to leave. The rate of its consumer may delay that for a moment."""
        run_id, consumer = self.row.id, self.hosted.spec.consumer(self.row.handler)
        for _ in range(_WAITS_MAX):
            found = self._do(lambda tables: transitions.in_flight(tables, run_id, operation, params, consumer))
            if not isinstance(found, Later):
                return found
            if self.is_stopping:
                break
            # Runs begin when their call could leave: it is not long.
            machine().sleep(min(max(found.at - self.hub.now(), 1), _WAIT_MS) / 1000)
        raise TransitionError("the rate of its consumer does not let its call leave now", stopped=True)

    def _answered(self, answer: object, result: DetachedValue) -> bool:
        match answer:
            case NotApplied():
                self._undone(TransientError(answer.reason or f"{self._title()} says that it did not happen"))
                return False
            case Unknown():
                return self._doubtful(IndeterminateError(answer.reason or "it says that it does not know"))
            case Applied():
                answer = answer.result
            case _:
                pass
        try:
            kept = encode(result.to_tree(answer))
        except HeadwaterError as error:
            # The call happened, and its result cannot be stored: that is no reason to repeat it.
            return self._doubtful(error)
        self._applied(kept)
        # The outcome of a late call is stored, but the run may have been given up before.
        return self.row.status == RunStatus.ACTIVE

    def _applied(self, kept: bytes) -> None:
        row_id = self.row.id
        if self.is_given_up or not reconciles(self.handler, self._operation()):
            # On disk before `next` is called: if the process ended there, the outcome could not be found out.
            self.row = self._do(lambda tables: transitions.applied(tables, row_id, kept))
            return
        # Not awaited: it is on disk with the end of the run, or within moments if that takes longer. If the process
        # ends before that, the state is as if it had ended before the call returned: `reconcile` finds the outcome.
        self._answer = kept
        self._post_answer()
        self.row = replace(self.row, phase=RunPhase.MUTATED, outcome=EffectOutcome.APPLIED, mutation_result=kept)

    def _post_answer(self) -> None:
        row_id, kept = self.row.id, self._answer
        if kept is not None:
            self._posted = self.hub.post(lambda tables: transitions.applied(tables, row_id, kept), soon=False)

    def _undone(self, error: BaseException) -> None:
        """The call certainly did not happen: the next attempt starts from the beginning."""
        if self.is_given_up:
            self.row = self._do(lambda tables: transitions.not_applied(tables, self.row.id, failure_text(error)))
            if self.row.status == RunStatus.ACTIVE:
                self._fail(self._classified(error))
            return
        self._fail(self._classified(error), undone=failure_text(error))

    def _doubtful(self, error: BaseException) -> bool:
        """Reconcile at once, in the run. Without an answer, reconcile in the background, or ask a person."""
        told = failure_text(error)
        if self.is_given_up:
            return False
        answer: object = Unknown(told)
        can_ask = can_reconcile(self.handler, self._call_row())
        if can_ask and not is_sent_again(self.handler):
            answer = self.reconcile()
        if self._is_learnt_late(answer):
            return False
        match answer:
            case Applied():
                try:
                    self._applied(answered_bytes(self.handler, self._call_row(), answer.result))
                except (InvariantError, StoreError, TransitionError):
                    raise
                except HeadwaterError as misfit:
                    told = misfit.message
                else:
                    return True
            case NotApplied():
                self._undone(error)
                return False
            case _:
                pass
        if can_ask and isinstance(answer, Unknown) and answer.reason:
            told += f"; asked about it: {answer.reason}"
        # The same call, sent again: later, by the rate of its consumer.
        soon = 0 if is_sent_again(self.handler) else DEFAULT.delay_ms(1)
        next_at = Millis(self.hub.now() + soon) if can_ask else None
        why = self._classified(error)
        self._do(lambda tables: transitions.uncertain(tables, self.row.id, told, next_at, why.details))
        log.warning("the outcome of run %s of %s is unknown: %s", self.row.id, self._title(), told)
        return False

    def _is_learnt_late(self, answer: object) -> bool:
        """The run was given up in the meantime: the outcome of its call is stored nevertheless."""
        if self.is_given_up:
            settle(self.hub, self.handler, self._call_row(), answer)
        return self.is_given_up

    # -- finding out ---------------------------------------------------------------------------------------

    def reconcile(self) -> object:
        """The answer of the author's `reconcile`. An error counts as no answer."""
        call = self._call_row()
        try:
            return self._inside(_MUTATE_ONLY, lambda: self._reconciled(call))
        except (StoreError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # a question that fails is one that is not answered
            return Unknown(failure_text(error))

    def _reconciled(self, call: Any) -> object:  # noqa: ANN401  # a CallRow
        handler = self.handler
        assert isinstance(handler, ConsumerDeclaration)
        operation = operation_of(handler, call.operation)
        if is_sent_again(handler):
            return self._sent_again(handler, call)
        if operation is not None:
            assert operation.reconciler is not None
            fn, given = operation.reconciler, operation.reconcile_arguments(self.space, call.params, call.key)
            answer = self._call(HandlerPhase.RECONCILE, "reconcile", lambda: fn(**given))
        else:
            consumer = self._consumer(handler)
            answer = self._call(HandlerPhase.RECONCILE, "reconcile", consumer.reconcile, self.run, self._data(handler))
        if self.run.failed is not None:
            # The value to read is not known: whatever `reconcile` made of it does not count.
            raise self.run.failed
        if not isinstance(answer, Applied | NotApplied | Unknown):
            raise LogicError(
                f"reconcile returned {answer!r}; hw.Applied(...), hw.NotApplied() or hw.Unknown() is expected"
            )
        return answer

    def _sent_again(self, handler: ConsumerDeclaration, call: Any) -> object:  # noqa: ANN401  # a CallRow
        """The answer of the same call, under the same key: the service has done it at most once."""
        mutate = partial(self._consumer(handler).mutate, self.run, self._data(handler))
        send = stored_call(handler, call, self.space, self.run) or mutate
        try:
            answer = self._call(HandlerPhase.MUTATE, "mutate", send)
        except WorkflowError as error:
            if not error.definite:
                raise
            return NotApplied(failure_text(error))
        return answer if isinstance(answer, Applied | NotApplied | Unknown) else Applied(answer)

    # -- going on ------------------------------------------------------------------------------------------

    def _next(self, handler: ConsumerDeclaration, consumer: Consumer[Any, Any, Any]) -> None:
        self.is_emitting = True
        # A failed read that `mutate` handled is over: the outcome of the call is known by now.
        self.run.failed = None
        data = self._data(handler)
        outcome = self._outcome(handler)
        types = handler.types

        def work() -> bytes | None:
            self._check_violation()
            consumer.state = self._state(types.state, types.default)
            if handler.has_next:
                self._call(HandlerPhase.NEXT, "next", consumer.next, self.run, data, outcome)
            self._check_violation()
            return types.changed_state(self.begun.state, consumer.state)

        def end(tables: Any, state: bytes | None) -> RunRow:  # noqa: ANN401  # a Book
            return transitions.consumed(tables, self.row.id, state, self.hosted.spec, self._answer)

        self._land(work, end)

    def _land(self, work: Callable[[], bytes | None], end: Callable[[Any, bytes | None], RunRow]) -> None:
        """Call `next`, and commit its writes and events together with the end of the run.

        After a conflict it is called again: that is no failure.
        """
        space = self.space
        until = machine().monotonic() + CONFLICT_MS / 1000
        pause = 0.001
        while True:
            tx = space.begin(self._title(), cause=["run", self.hosted.spec.name, self.row.id])
            try:
                with RunContext(space, tx, self.row.id):
                    state = work()
            except BaseException:
                tx.abort()
                raise
            if self.is_given_up:
                # It was late, and another attempt has replaced it: it is not called again, whatever it has read.
                tx.abort()
                raise TransitionError(f"{self._title()} has come back after its time, and what it wrote is rolled back")
            transaction = self.hub.along(tx)
            transaction.add(lambda tables, state=state: end(tables, state))  # type: ignore[misc]  # bound at once
            if self.then is not None:
                # W10: a run that took nothing has checked its events; it runs again when something happens.
                transaction.add(partial(self.then, self.row.handler if self.row.taken else "", self.row.lane))
            # A caller waits for its end: then it is not reported as lost.
            tx.on_settled(lambda _: None)
            if self._posted is not None:
                # The end of the run stores the result as well, if it is not on disk yet.
                self._posted.drop(FIRST_STEP)
            try:
                is_overtaken = self._commit(tx, transaction)
            except BaseException:
                self._keep_answer()
                raise
            if not is_overtaken:
                break
            self._keep_answer()
            if machine().monotonic() > until:
                raise TransientError(f"{self._title()} was overtaken by others again and again for 30 s")
            space.catch_up()
            machine().sleep(pause * machine().random())  # so that two who are in each other's way part
            pause = min(pause * 2, 0.25)
        if self.then is None:
            self.row = transaction.result
        else:
            self.row, self.followed_by = transaction.last(2)

    def _commit(self, tx: Transaction, transaction: WorkflowTransaction) -> bool:
        """Commit the end of the run, and wait for the disk. Returns whether a value that it read has changed."""
        ended = self.hub.hold(transaction)
        self.space.commit_block(tx)
        if not tx.is_rejected:
            self.hub.serve(ended)
        if tx.is_rejected or (transaction.is_decided and not transaction.is_committed and transaction.error is None):
            return True
        self.hub.settled(transaction)
        return False

    def _keep_answer(self) -> None:
        """The end of the run was not stored: the result of the call is stored without it, if that is possible."""
        if self._posted is not None and not self._posted.results:
            with suppress(HeadwaterError):
                self._post_answer()
