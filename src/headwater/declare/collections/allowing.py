"""`hw.allow`: what a role may do with the documents of a collection, as an author declares it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.indexed_fields import field_of
from headwater.errors import DeclarationError, NameRefusedError
from headwater.store.collection_rules import OWN, Rule, check_role
from headwater.values.author_text import safe_repr


class Allowance:
    """What one role may do. Made by `hw.allow`."""

    __slots__ = ("create", "delete", "read", "role", "write")

    def __init__(self, role: str, read: object, create: object, write: object, delete: object) -> None:
        self.role = role
        self.read = read
        self.create = create
        self.write = write
        self.delete = delete

    def __repr__(self) -> str:
        parts = [f"{verb}={getattr(self, verb)!r}" for verb in ("read", "create", "write", "delete")]
        return f"hw.allow({self.role!r}, {', '.join(parts)})"


def allow(
    role: str,
    *,
    read: bool = False,
    create: bool | Literal["own"] = False,
    write: bool | Literal["own"] | Sequence[object] = False,
    delete: bool | Literal["own"] = False,
) -> Allowance:
    """What a role may do with the documents of a collection: `rules=[hw.allow("clerk", read=True, create=True)]`.

    A server checks it for each commit and each read of a session, by the roles of its token. What no rule allows is
    refused. `"own"` means documents whose owner field has the actor of the session, before and after the commit.

    Args:
        role: The role, as in `headwater token create --role`.
        read: Whether the role may read the documents.
        create: Whether it may create documents.
        write: Whether it may write all fields, or the fields that it may write: `[Order.state]`.
        delete: Whether it may delete documents.

    Returns:
        The rule, for `rules=` of `app.collection`.

    Raises:
        DeclarationError: HW110. The role is no name, or a value is none of these.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            seller: str
            state: str = "open"


        app = hw.App("shop")
        orders = app.collection(
            Order,
            owner=Order.seller,
            rules=[
                hw.allow("courier", read=True, write=[Order.state]),
                hw.allow("seller", read=True, create="own", write="own"),
            ],
        )
        ```
    """
    where = f"hw.allow({safe_repr(role)})"
    try:
        name = check_role(role)
    except NameRefusedError as error:
        raise DeclarationError(f"{where}: {error.message}") from None
    given: dict[str, object] = {"read": read, "create": create, "write": write, "delete": delete}
    for verb, value in given.items():
        _check(where, verb, value)
    return Allowance(name, **given)


def _check(where: str, verb: str, value: object) -> None:
    if isinstance(value, bool) or (isinstance(value, str) and value == OWN and verb != "read"):
        return
    if verb == "read":
        rest = "; documents of one user are a collection with scope='user'" if value == OWN else ""
        raise DeclarationError(f"{where}: read is True or False, not {safe_repr(value)}{rest}")
    if verb != "write":
        raise DeclarationError(f"{where}: {verb} is True, False or 'own', not {safe_repr(value)}")
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        message = f"{where}: write is True, False, 'own' or a list of fields, not {safe_repr(value)}"
        raise DeclarationError(message)


def owner_of(kind: type[Doc], given: object, where: str) -> DocField | None:
    """The field that names the owner of a document. Raises DeclarationError."""
    return None if given is None else field_of(kind, given, f"{where}: owner")


def rules_for(kind: type[Doc], given: object, owner: DocField | None, where: str) -> tuple[Rule, ...]:
    """The rules of a collection, as they are stored. Raises DeclarationError."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DeclarationError(f"{where}: rules=... is a list of hw.allow(...), not {safe_repr(given)}")
    made: dict[str, Rule] = {}
    for each in given:
        if not isinstance(each, Allowance):
            raise DeclarationError(f"{where}: rules=... is a list of hw.allow(...), and has {safe_repr(each)}")
        if each.role in made:
            raise DeclarationError(f"{where}: rules=... has two rules for the role {each.role!r}; join them")
        made[each.role] = _rule(kind, each, owner, where)
    return tuple(made.values())


def _rule(kind: type[Doc], each: Allowance, owner: DocField | None, where: str) -> Rule:
    write: Any = each.write
    if not isinstance(write, bool | str):
        fields = [field_of(kind, field, f"{where}: hw.allow({each.role!r}), write") for field in write]
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DeclarationError(f"{where}: hw.allow({each.role!r}): the field {twice!r} is there twice")
        write = tuple(names)
    if owner is None and OWN in (each.create, write, each.delete):
        message = f"{where}: hw.allow({each.role!r}) allows own documents, and owner=... names no field"
        raise DeclarationError(f"{message}; give the field that has the name of the actor")
    create: Any = each.create
    delete: Any = each.delete
    return Rule(each.role, bool(each.read), create, write, delete)
