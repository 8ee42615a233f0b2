"""Which modules are compiled: those on the path of a write, a read, a run and an event. And why others are not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

COMPILED: Final = ("values/*.py", "store/*.py", "cells/*.py", "scheduler/**/*.py", "runtime/attached_replica.py")
"""Under src/headwater. A new module of these packages is compiled unless it is listed below."""

IMPORTED: Final = (*COMPILED, "*.py", "store/**/*.py")
"""All that compiled modules import, and these themselves: what the result of compiling depends on."""

_RECORDS: Final = "records whose annotations are evaluated at run time: mypyc does not keep annotations"
_HANDLES: Final = "what authors hold: weak references, and classes that theirs extend"
_SCHEMAS: Final = "schemas are extended by interpreted modules; they are asked once for each value"
_BUILTINS: Final = "classes that extend built-in or abstract containers"
_RECURSIVE: Final = "recursive over what authors give: only the interpreter raises RecursionError"
_LIMITS: Final = "constants that tests and the simulation set"
_COLD: Final = "not on these paths"

PURE: Final[dict[str, str]] = {
    **dict.fromkeys(
        [
            "cells/binding.py",
            "cells/context_frame.py",
            "cells/journal_entry.py",
            "cells/moved_document.py",
            "cells/pending_commit.py",
            "cells/span_records.py",
            "cells/total_reads.py",
            "cells/traverse.py",
            "scheduler/events/event.py",
            "scheduler/events/outgoing_entry.py",
            "scheduler/events/receipts.py",
            "scheduler/events/parking.py",
            "scheduler/passes/outstanding.py",
            "scheduler/runs/attempt.py",
            "scheduler/runs/resumed_node.py",
            "scheduler/runs/steps.py",
            "scheduler/trace.py",
            "store/backend.py",
            "store/collection_record.py",
            "store/index_field.py",
            "store/collection_rules.py",
            "store/commit.py",
            "store/decided_commit.py",
            "store/document.py",
            "store/observations.py",
            "store/shifts.py",
            "values/address.py",
            "values/link.py",
            "values/notifications.py",
            "values/patch.py",
            "values/sortkey.py",
        ],
        _RECORDS,
    ),
    **dict.fromkeys(
        [
            "cells/cell.py",
            "cells/conditions.py",
            "cells/container.py",
            "cells/detached_value.py",
            "cells/document_class.py",
            "cells/document_field.py",
            "cells/document_kinds.py",
            "cells/document_operations.py",
            "cells/elements.py",
            "cells/gathered_documents.py",
            "cells/indexed_fields.py",
            "cells/linked_documents.py",
            "cells/linked_spaces.py",
            "cells/list_and_map.py",
            "cells/list_reads.py",
            "cells/page_cursor.py",
            "cells/post.py",
            "cells/query.py",
            "cells/query_answers.py",
            "cells/query_plan.py",
            "cells/query_rows.py",
            "cells/query_source.py",
            "cells/reading.py",
            "cells/slot.py",
            "cells/unique_values.py",
            "cells/untyped_document.py",
        ],
        _HANDLES,
    ),
    **dict.fromkeys(
        [
            "values/class_rules.py",
            "values/guess.py",
            "values/hints.py",
            "values/intake.py",
            "values/schema.py",
            "values/schema_choices.py",
            "values/schema_containers.py",
            "values/schema_fields.py",
            "values/schema_records.py",
            "values/schema_ruled.py",
            "values/schema_scalars.py",
            "values/schema_text_types.py",
            "values/schema_twins.py",
            "values/schema_union.py",
            "values/shape.py",
            "values/shape_checks.py",
        ],
        _SCHEMAS,
    ),
    **dict.fromkeys(["scheduler/scheduler_limits.py", "store/store_limits.py", "values/value_limits.py"], _LIMITS),
    **dict.fromkeys(["values/causal.py"], _RECURSIVE),
    **dict.fromkeys(
        ["cells/ended_memo.py", "values/chunked.py", "values/frozen.py", "values/transition_table.py"], _BUILTINS
    ),
    **dict.fromkeys(
        [
            "cells/display.py",
            "cells/field_changes.py",
            "store/branching.py",
            "store/browsing.py",
            "store/collection_checks.py",
            "store/compaction.py",
            "store/declaring.py",
            "store/expiring.py",
            "store/index_dropping.py",
            "store/features.py",
            "store/log_rebuild.py",
            "store/portable.py",
            "store/resumption.py",
            "store/retention.py",
            "store/space_identity.py",
            "store/verification.py",
            "values/author_text.py",
            "values/duration.py",
            "values/native.py",
            "values/seams.py",
            "values/shape_width.py",
            "values/space_ids.py",
            "values/space_names.py",
            "values/strict_json.py",
            "values/suggestions.py",
            "values/text.py",
        ],
        _COLD,
    ),
}


def compiled_modules(package: Path) -> list[str]:
    """The paths of the modules to compile, below the folder of the package."""
    found = {path.relative_to(package).as_posix() for pattern in COMPILED for path in package.glob(pattern)}
    return sorted(
        name
        for name in found
        if name not in PURE and not name.endswith("__init__.py") and not name.startswith("scheduler/inspect/")
    )
