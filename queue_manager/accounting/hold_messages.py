"""Says in the step Held which queue holds the Workload, and whether it is held or drained, as `sluice ps` does. Pure.

The condition of a held Workload says only that its queue is inactive (Kueue's words).
"""

from __future__ import annotations

import msgspec

from queue_manager.accounting.record_types import Record, StepKind, StepRecord
from queue_manager.api.types import ClusterQueue, LocalQueue, stops
from queue_manager.visibility.effects_of_changes import stopped_word


def with_stopped_queue(record: Record, local: LocalQueue | None, cluster: ClusterQueue | None) -> Record:
    """Return the record with the stopped queue in its message if it is a step Held, else unchanged.

    `local`, `cluster`: the queues of the Workload now; None if they do not exist. A ClusterQueue may also be inactive
    without being stopped: the message of the condition stays then.
    """
    if not isinstance(record, StepRecord) or record.kind is not StepKind.HELD:
        return record
    for kind, queue in (("LocalQueue", local), ("ClusterQueue", cluster)):
        if queue is not None and stops(queue.spec.stop_policy):
            text = f"{kind} {queue.metadata.name} is {stopped_word(queue.spec.stop_policy)}"
            return msgspec.structs.replace(record, message=text)
    return record
