"""Mutants: how they are applied, and taken back. No world is played here."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.client.remote_replica import RemoteReplica
from headwater.store.sessions import Sessions
from headwater.sync import client_session
from headwater.sync.client_session import ClientSession
from headwater.sync.watches import closure
from headwater.workflow import beginning
from sim.mutants.catalog import find
from sim.mutants.mutant import SHARED, Mutant, RottenError, applied, mutated

pytestmark = pytest.mark.pure("mistakes are planted in sources")


def mutant(where: str, old: str, new: str) -> Mutant:
    return Mutant("test", "test", where, old, new, "none", (SHARED,))


def test_a_piece_that_is_not_there_is_rotten() -> None:
    with pytest.raises(RottenError, match="occurs 0 times"):
        mutated(mutant("sync.client_session:ClientSession.lost", "self._sent.sort()", "pass"))


def test_a_piece_that_is_there_twice_is_rotten() -> None:
    twice = mutant("store.sessions:Sessions.forget", "local_seq", "0")
    with pytest.raises(RottenError, match="occurs 4 times"):
        mutated(twice)


@pytest.mark.parametrize(
    "where",
    [
        "sync.no_such_module:ClientSession.lost",
        "sync.client_session:NoSuchClass.lost",
        "sync.client_session:ClientSession.no_such_method",
        "sync.client_session:ClientSession",
    ],
)
def test_a_function_that_is_gone_is_rotten(where: str) -> None:
    with pytest.raises(RottenError):
        mutated(mutant(where, "self", "None"))


def test_a_method_without_source_is_rotten() -> None:
    with pytest.raises(RottenError, match="no definition"):
        mutated(mutant("store.state_cache:DocState.__init__", "self", "None"))


def test_formatting_does_not_matter() -> None:
    function, _ = mutated(mutant("sync.client_session:ClientSession.lost", "self . _sent.clear( )", "pass"))
    assert function is ClientSession.lost


def test_the_code_is_another_one_inside_and_the_same_afterwards() -> None:
    before = ClientSession.lost.__code__
    session: Any = SimpleNamespace(
        phase=None,
        seq=0,
        _sent={1: None},
        _line=SimpleNamespace(changed=lambda: None),
        _end=lambda _: None,
        spans=SimpleNamespace(lost=lambda *_, **__: None),
    )
    with applied(find("not_sent_again")):
        ClientSession.lost(session)
        assert session._sent == {1: None}
    assert ClientSession.lost.__code__ is before
    ClientSession.lost(session)
    assert session._sent == {}


def test_it_is_taken_back_after_an_exception() -> None:
    before = ClientSession.lost.__code__
    with pytest.raises(KeyError), applied(find("sync.not_sent_again")):
        raise KeyError
    assert ClientSession.lost.__code__ is before


def test_a_name_that_was_imported_elsewhere_sees_it() -> None:
    imported: Any = vars(client_session)["up_to"]
    assert imported.__module__ == "headwater.sync.client_listener"
    with applied(find("place_not_advanced")):
        assert imported(7, "").verdict.seq == 0
    assert imported(7, "").verdict.seq == 7


def test_a_property_can_be_changed() -> None:
    session: Any = SimpleNamespace(outbox={1: None})
    pending = ClientSession.pending
    assert isinstance(pending, property) and pending.fget is not None
    with applied(mutant("sync.client_session:ClientSession.pending", "len(self.outbox)", "-1")):
        assert pending.fget(session) == -1
    assert pending.fget(session) == 1


def test_a_static_method_can_be_changed() -> None:
    session: Any = SimpleNamespace(last=1, gap=0)
    with applied(mutant("store.sessions:Sessions._move", "session.last = local_seq", "session.last = 9")):
        Sessions._move(session, 2)
    assert session.last == 9


def test_a_generator_can_be_changed() -> None:
    start = [("space/a", {"/": {"link@1": {"id": "b"}}})]
    with applied(mutant("sync.watches:closure", "left = deque(start)", "left = deque(); yield 'first', None")):
        found = list(closure(start, lambda _: None, 3))
    assert found[0] == ("first", None)


def test_a_function_under_a_decorator_can_be_changed() -> None:
    function, code = mutated(mutant("host.storage:Storage._guarded", "self._torn = True", "pass"))
    assert function.__name__ == code.co_name == "_guarded"


def test_a_coroutine_can_be_changed() -> None:
    function, code = mutated(find("proof_used_before_kept"))
    assert code.co_flags == function.__code__.co_flags
    assert code.co_flags & inspect.CO_COROUTINE


def test_a_method_that_calls_super_keeps_its_class() -> None:
    function, code = mutated(mutant("client.remote_replica:RemoteReplica._release_all", "self.inbox", "True"))
    assert function is RemoteReplica._release_all
    assert code.co_freevars == ("__class__",)


def test_a_closure_that_the_mutant_no_longer_uses_stays() -> None:
    piece = "super().integrate(self._worked_out(taken))"
    with applied(mutant("client.remote_replica:RemoteReplica.integrate", piece, "pass")):
        pass
    assert RemoteReplica.integrate.__code__.co_freevars == ("__class__",)


def test_lines_of_a_traceback_are_those_of_the_source() -> None:
    function, code = mutated(find("two_at_once"))
    assert function is beginning._begin_shared
    assert code.co_firstlineno == function.__code__.co_firstlineno
    assert code.co_qualname == function.__code__.co_qualname


def test_a_mutant_is_found_by_name_and_by_area_and_name() -> None:
    assert find("two_at_once") is find("workflow.two_at_once")
    with pytest.raises(StopIteration):
        find("store.two_at_once")
