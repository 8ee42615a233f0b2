"""The scope of a result: the narrowest scope that its run read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headwater.cells.pending_commit import ReadKey
from headwater.cells.run_result import commit_result, put_result
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import BREADTH
from headwater.scheduler.graph.node import Node
from headwater.values.address import SPACE_SCOPE
from headwater.values.ids import DocId, DocKey
from headwater.values.link import LinkRecord
from headwater.values.tree import Value

EVERYBODYS: Final = "space/"
"""How the keys of documents begin that are not one user's own."""


def narrowest(reads: Mapping[ReadKey, object]) -> str:
    """The narrowest scope that was read, if it is not the space: the scope of the result."""
    for doc, _, _ in reads:
        if not doc.startswith(EVERYBODYS):
            break
    else:
        # Nearly every run.
        return ""
    # The scope of a far key comes after the id of its space.
    scopes = {doc.partition("/")[0].rpartition("|")[2] for doc, _, _ in reads}
    narrow = [scope for scope in scopes if scope != SPACE_SCOPE.text]
    return max(narrow, key=lambda instance: BREADTH[instance.partition(":")[0]], default="")


def commit_own(node: Node, tx: Transaction, value: Value) -> bool:
    """Commit a result in the scope of the user whose documents were read.

    The document of the space contains a link that leads each reader to the result in the reader's own scope.
    """
    doc = DocId(node.outputs[0].partition("/")[2])
    put_result(tx, own_doc(node), value)
    return commit_result(tx, node.outputs[0], LinkRecord(doc=doc, scope=node.result_scope.partition(":")[0]).to_value())


def own_doc(node: Node) -> DocKey:
    """The document of a result in the scope of its user."""
    return DocKey(f"{node.result_scope}/{node.outputs[0].partition('/')[2]}")
