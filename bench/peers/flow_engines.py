"""The engines that table `workflows` compares, each behind the same few verbs; each has the same job done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from sqlite3 import connect
from typing import Any, Final, Protocol, cast

import headwater as hw
from bench.peers.job import MUTATE, Data, Job, Result
from headwater.workflow.workflow_limits import KEEP_RUNS

AT_ONCE: Final = 16


class FlowEngine(Protocol):
    """Every step of a run is on disk before the next begins, and all of them when a verb returns."""

    name: str

    def serial(self, numbers: Sequence[int]) -> None:
        """One after the other: the next is handed in when the one before is done."""
        ...

    def many(self, numbers: Sequence[int]) -> None:
        """All handed in, as many at the same time as there can be."""
        ...

    def close(self) -> None: ...


class Headwater:
    """Workflows with one topic and one consumer each; executed in this thread, or by a host."""

    name = "headwater"

    def __init__(
        self, path: Path, job: Job, flows: int = 1, *, keep_runs: int | None = KEEP_RUNS, drains: bool = True
    ) -> None:
        self._job = job
        self.app = hw.App("bench")
        self.topics = [self._declare(f"flow{number}", keep_runs) for number in range(flows)]
        self.space: hw.Space = self.app.open(str(path))
        self.space.__enter__()
        if drains:
            # A consumer that is deployed looks once.
            self.space.workflows.drain()

    def _declare(self, name: str, keep_runs: int | None) -> Any:
        flow = self.app.workflow(name, keep_runs=keep_runs)
        topic = flow.topic("jobs", int)
        job = self._job

        class Work(hw.Consumer[int, Data, Result]):
            def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[Data]:
                if not pending:
                    return hw.Plan.idle()
                first = pending[0]
                return hw.Plan(job.prepare(first.data), take=[first], title=f"Job {first.id}")

            def mutate(self, run: hw.Run, data: Data) -> Result:  # noqa: ARG002  # as it is called
                return job.mutate(_number(data), data)

            def reconcile(self, run: hw.Run, data: Data) -> Any:  # noqa: ARG002  # likewise
                number = _number(data)
                if not job.ledger.has(number, MUTATE):
                    return hw.NotApplied()
                return hw.Applied({"applied": number, "length": len(data["data"])})

            def next(self, run: hw.Run, data: Data, outcome: Any) -> None:  # noqa: ARG002  # likewise
                job.commit(_number(data), outcome.result)

        flow.consumer(topic, name="work")(Work)
        return topic

    def publish(self, number: int) -> None:
        self.topics[number % len(self.topics)].publish(number, id=str(number))

    def serial(self, numbers: Sequence[int]) -> None:
        workflows = self.space.workflows
        for number in numbers:
            self.publish(number)
            workflows.drain()

    def many(self, numbers: Sequence[int]) -> None:
        self.space.workflows.start()
        self._job.expect(len(numbers))
        for number in numbers:
            self.publish(number)
        self._job.wait()
        self.rest()

    def rest(self) -> None:
        """The last step of a run was called: its commit follows."""
        while self.space.workflows.hub.alive:
            time.sleep(0.0002)

    def close(self) -> None:
        self.space.__exit__(None, None, None)


def _number(data: Data) -> int:
    return cast("int", data["ids"][0])


class Dbos:
    """The library of that name, on SQLite. Its file has a rollback journal as it comes; `wal` gives it the quicker log.

    There is one in a process at a time.
    """

    name = "DBOS"

    def __init__(self, path: Path, job: Job, *, wal: bool = True) -> None:
        # By name: what checks types is installed without it.
        self._library: Final[Any] = import_module("dbos")
        if wal:
            with closing(connect(path)) as db:
                db.execute("pragma journal_mode = wal").fetchall()
        made = self.dbos = self._library.DBOS
        made(
            config={
                "name": "bench",
                "system_database_url": f"sqlite:///{path}",
                "log_level": "CRITICAL",
                "application_version": "1",
                "executor_id": "local",
                "max_executor_threads": AT_ONCE,
                "run_admin_server": False,
            }
        )
        prepare, mutate, commit = (
            made.step(name=step.__name__)(_function(step)) for step in (job.prepare, job.mutate, job.commit)
        )

        def run(number: int) -> int:
            data = prepare(number)
            result = mutate(number, data)
            return cast("int", commit(number, result))

        self.run = made.workflow(name="run")(run)
        made.launch()

    def serial(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.run(number)

    def many(self, numbers: Sequence[int]) -> None:
        handles = [self.dbos.start_workflow(self.run, number) for number in numbers]
        for handle in handles:
            handle.get_result()

    def submit(self, number: int) -> None:
        """Accepted and on disk when it returns."""
        with self._library.SetWorkflowID(f"job{number}"):
            self.dbos.start_workflow(self.run, number)

    def use_queue(self) -> None:
        self.dbos.register_queue("jobs", worker_concurrency=AT_ONCE)

    def enqueue(self, number: int) -> Any:
        """For the queue, which is looked at once a second as it comes."""
        return self.dbos.enqueue_workflow("jobs", self.run, number)

    def queued(self, numbers: Sequence[int]) -> None:
        for handle in [self.enqueue(number) for number in numbers]:
            handle.get_result()

    def close(self) -> None:
        self.dbos.destroy(destroy_registry=True)


def _function(step: Any) -> Any:
    """As the library wants it: with a name of its own, and no object that it would look at."""

    def call(*args: Any) -> Any:
        return step(*args)

    call.__name__ = call.__qualname__ = step.__name__
    return call
