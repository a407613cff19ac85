"""Changes the explanation of a Job if no manager runs: that comes first, as nothing else would start the Job. Pure.

BEHAVIOUR.md#q164-explanations-without-a-manager.
"""

from __future__ import annotations

from msgspec import structs

from queue_manager.api import reasons
from queue_manager.visibility import reason_codes
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.manager_presence import Presence
from queue_manager.visibility.pending_sentences import MANAGER_RUNS
from queue_manager.visibility.reason_codes import ReasonClass, code

NOT_SEEN = "the Lease of the managers, so whether one runs (an admin who may read it: sluice doctor)"
ONE_RUNS = "a manager runs again (`sluice doctor` says what is wrong with its installation)"


def is_in_doubt(found: Explanation) -> bool:
    """Whether the reason says that a controller acts, or should act."""
    return found.code.startswith((ReasonClass.WAIT, ReasonClass.FAULT))


def without_manager(found: Explanation, seen: Presence) -> Explanation:
    """Return the explanation of a Job for which `is_in_doubt`, where no manager may run: that comes first.

    If it is certain, nothing else would start the Job, whatever it waits for. What holds beside that stays: the
    message of the scheduler and the tables.
    """
    is_fault = found.code.startswith(ReasonClass.FAULT)
    if not seen.all_read:
        found = structs.replace(found, not_seen=[*found.not_seen, NOT_SEEN])
    if not seen.absent:
        return found
    changes = [ONE_RUNS, *(change for change in found.changes if not change.startswith(MANAGER_RUNS))]
    if not seen.is_certain:
        if not is_fault and found.code != code(reasons.PENDING_EVALUATION):
            return found
        sentence = f"{found.sentence} Perhaps no manager runs: {seen.absent}."
        return structs.replace(found, sentence=sentence, changes=changes, next_command=seen.command)
    sentence = f"No manager runs, so nothing is admitted or started: {seen.absent}."
    return structs.replace(
        found,
        code=found.code if is_fault else code(reason_codes.CONTROLLER_STALE),
        sentence=f"{sentence} {found.sentence}" if is_fault else sentence,
        changes=changes,
        next_command=seen.command,
        starts_by=None,
    )
