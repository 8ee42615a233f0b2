"""Mistakes in replicas and transactions: layers, rollback, integration, reads."""

from __future__ import annotations

from typing import Final

from sim.mutants.mutant import PROGRAM, SHARED, Mutant, maker

_m = maker("cells", SHARED, PROGRAM)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # Local commits.
    _m(
        "dead_layer_built_on",
        "cells.replica:Replica._commit_many",
        "self._rejected and self._rests_on_rejected(pending)",
        "False",
        "INV-4",
        equivalent="the store rejects each commit that rests on one it has not accepted (`Engine._undermined`); this "
        "only saves sending it, and a block may learn of its rejection at its end or with the verdict",
    ),
    _m(
        "cascade_forgotten",
        "cells.replica:Replica._drop",
        "[pending, *depending_on(pending, self._pending.values())]",
        "[pending]",
        "INV-4",
    ),
    _m(
        "noop_over_layers",
        "cells.replica:Replica._commit",
        "not touches and not record.layers",
        "not touches",
        "INV-7",
    ),
    _m(
        "elided_over_layer",
        "cells.drafts:Draft.is_elidable",
        "not self.mark.count and (self.edit_inputs is None or not self.edit_inputs.of(path, _DEEP))",
        "self.edit_inputs is None or not self.edit_inputs.of(path, _DEEP)",
        "INV-7",
    ),
    _m(
        "undone_still_sent",
        "cells.transaction:Transaction.roll_back",
        "draft.value, draft.whole, draft.ops = value, whole, list(ops)",
        "draft.value, draft.whole = value, whole",
        "INV-7",
        PROGRAM,
    ),
    _m(
        "undone_still_launched",
        "cells.transaction:Transaction.roll_back",
        "undone, self.launched = self.launched[launched:], self.launched[:launched]",
        "undone = ()",
        "I10",
        PROGRAM,
    ),
    # Integration.
    _m("overtaken_shown", "cells.replica:Replica._advance", "mine is None and self._pending", "False", "I1"),
    _m("heard_twice", "cells.replica:Replica._advance", "mine is None and seq <= self.seq", "False", "INV-9"),
    _m(
        "promoted_though_moved",
        "cells.replica:Replica._promote",
        "outcome.effects is not effects or mine.is_rebased or len(effects) != 1",
        "len(effects) != 1",
        "INV-9",
    ),
    _m("older_pulled", "cells.replica:Replica._apply_pulled", "found.seq >= record.seq", "True", "INV-9", SHARED),
    _m("older_confirmed", "cells.replica:Replica._confirm", "seq > record.seq", "True", "INV-9"),
    _m(
        "layer_kept_after_replay",
        "cells.replica:Replica._learn",
        "[layer for layer in record.layers if layer is not mine] or NO_LAYERS",
        "record.layers",
        "INV-9",
    ),
    _m("rebased_unseen", "cells.replica:Replica._confirm", "step.stale[effect.doc] = record", "pass", "I1"),
    _m(
        "rebase_unmarked",
        "cells.replica:Replica._render",
        "layer.is_rebased = True",
        "pass",
        "INV-9",
        equivalent="effects are kept only if the store applied the commit to the value that they begin with "
        "(`Engine._matching`, `RemoteReplica._is_as_shown`); all commits before it are taken in by then, so the "
        "confirmed value is that one, and a layer that is rendered on it again has the same effects",
    ),
    _m("rejected_layer_shown", "cells.replica:Replica._drop", "step.stale[doc] = record", "pass", "I1"),
    _m(
        "revert_untold",
        "cells.replica:Replica._notify_step",
        "self._notify(Notification(Kind.REVERT, tuple(reverted), step.rejected_source(), undone))",
        "pass",
        "I1",
    ),
    _m("version_stands", "cells.replica:Replica.integrate", "self.version += 1", "pass", "I1"),
    # Reads.
    _m("peek_depends", "cells.journal:Journal.reads", "not bits & _NOT_DEPENDED_ON", "True", "I3", PROGRAM),
    _m(
        "shallow_covered",
        "cells.journal:compact",
        "path not in tops and not _is_below(path, tops)",
        "not tops",
        "INV-1",
    ),
    _m(
        "edited_read_unnamed",
        "cells.journal:EditInputs.add",
        "self._all[path, path, _DEEP_READ] = None",
        "pass",
        "INV-1",
    ),
    _m("rest_as_confirmed", "cells.journal:Mark.read", "not self.count", "True", "INV-3"),
)
