"""Rules of collections: which roles may read, create, write and delete documents, and which fields.

A rule allows; what no rule of the session's roles allows is refused. "own": the owner field of the document has the
actor of the session, before and after the commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from headwater.errors import NameRefusedError
from headwater.values.author_text import safe_repr
from headwater.values.tree import ABSENT, Maybe, Value, array_of, child, is_array, is_map, map_of

OWN: Final = "own"
"""In the place of True: only documents whose owner is the actor."""

ROLE_MAX: Final = 64
"""Characters of a role: a word."""

_ROLE: Final = re.compile(rf"[^\W_][\w.-]{{0,{ROLE_MAX - 1}}}")

Allowed: TypeAlias = bool | Literal["own"]


class Access(msgspec.Struct, frozen=True, gc=False):
    """What the session of a commit may do in the space. A process that has the file needs none."""

    may_write: bool
    may_own: bool = False
    roles: frozenset[str] = frozenset()
    actor: str = ""
    is_forced: bool = False
    """The commit is stored although values do not fit the types of their collection. For owners."""

    @property
    def described(self) -> str:
        """The roles, for messages."""
        return f"the role {' or '.join(sorted(self.roles))}" if self.roles else "a session without a role"


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What one role may do. `write`: all fields, these fields, or all of the own documents."""

    role: str
    read: bool = False
    create: Allowed = False
    write: Allowed | tuple[str, ...] = False
    delete: Allowed = False


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules of one collection. Without any, the right to the space counts."""

    owner: str = ""
    rules: tuple[Rule, ...] = ()

    def may_read(self, access: Access | None) -> bool:
        """Whether a session that may read the space may read the documents of this collection."""
        if access is None or access.may_own or not self.rules:
            return True
        return any(rule.read and rule.role in access.roles for rule in self.rules)

    def may_change(self, access: Access | None) -> bool:
        """Whether there is a document or a field that the session may create, write or delete."""
        if access is None or access.may_own or not self.rules:
            return True
        return any(rule.create or rule.write or rule.delete for rule in self._of(access))

    def objection(self, access: Access, before: Maybe, after: Maybe, fields: Sequence[str] | None) -> str:
        """Why a session may not change a document so; empty if it may. `fields`: those that differ; None: all."""
        mine = self._of(access)
        was_own, is_own = self._is_own(access, before), self._is_own(access, after)
        if before is ABSENT or after is ABSENT:
            verb, own = ("create", is_own) if before is ABSENT else ("delete", was_own)
            is_allowed = any(_is_in(getattr(rule, verb), own=own) for rule in mine)
            return "" if is_allowed else f"{access.described} may not {verb} it{self._whose(mine, verb)}"
        is_whole = any(
            not isinstance(rule.write, tuple) and _is_in(rule.write, own=was_own and is_own) for rule in mine
        )
        if is_whole:
            return ""
        return self._field_objection(access, mine, fields)

    def _field_objection(self, access: Access, mine: Sequence[Rule], fields: Sequence[str] | None) -> str:
        writable = {name for rule in mine if isinstance(rule.write, tuple) for name in rule.write}
        if fields is None:
            return f"{access.described} may not replace it{self._whose(mine, 'write')}"
        wrong = next((name for name in fields if name not in writable), None)
        if wrong is not None:
            only = f", only {', '.join(sorted(writable))}" if writable else ""
            return f"{access.described} may not write its field {wrong!r}{only}{self._whose(mine, 'write')}"
        if not fields and not writable and not self.may_read(access):
            # That nothing has changed would say what the document has.
            return f"{access.described} may not write it{self._whose(mine, 'write')}"
        return ""

    def _of(self, access: Access) -> list[Rule]:
        return [rule for rule in self.rules if rule.role in access.roles]

    def _is_own(self, access: Access, value: Maybe) -> bool:
        return bool(access.actor) and bool(self.owner) and child(value, self.owner) == access.actor

    def _whose(self, mine: Sequence[Rule], verb: str) -> str:
        has_own = any(getattr(rule, verb) == OWN for rule in mine)
        return f", unless {self.owner!r} is the actor before and after" if has_own else ""


def _is_in(allowed: Allowed, *, own: bool) -> bool:
    return allowed is True or (allowed == OWN and own)


NO_RULES: Final = Rules()


def check_role(name: object) -> str:
    """The name of a role. Raises NameRefusedError."""
    if not isinstance(name, str) or not _ROLE.fullmatch(name):
        message = f"{safe_repr(name)} is no role: letters, digits, - and _ are expected, at most {ROLE_MAX}"
        raise NameRefusedError(message, role=name)
    return name


# --- as values ------------------------------------------------------------------------------------------------


def rules_tree(rules: Sequence[Rule]) -> Value:
    """Rules as they are stored in the record of a collection."""
    return array_of([_rule_tree(each) for each in rules])


def _rule_tree(rule: Rule) -> Value:
    tree: dict[str, Value] = {"role": rule.role}
    for verb in ("read", "create", "write", "delete"):
        allowed = getattr(rule, verb)
        if allowed is not False:
            tree[verb] = array_of(list(allowed)) if isinstance(allowed, tuple) else allowed
    return map_of(tree)


def rules_of(owner: Maybe, stored: Maybe) -> Rules:
    """The inverse. Raises ValueError or msgspec.ValidationError for anything else: an ignored rule is a right."""
    field = "" if owner is ABSENT else owner
    if type(field) is not str:
        raise ValueError("its owner is no field")
    if stored is ABSENT:
        return Rules(field)
    if not is_array(stored):
        raise ValueError("its rules are not a list")
    rules = tuple(msgspec.convert(_plain(each), Rule) for each in stored)
    for rule in rules:
        check_role(rule.role)
    return Rules(field, rules)


def _plain(tree: Value) -> Mapping[str, object]:
    if not is_map(tree):
        raise ValueError("a rule is no map")
    return {name: list(each) if is_array(each) else each for name, each in tree.items()}
