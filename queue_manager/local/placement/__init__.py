"""Pod placement: the scheduler of the embedded cluster.

filters      where one pod may go, and why not elsewhere    pure
preemption   whose room a pod of higher priority takes      pure
room         who holds which room, and who is promised it
loop         the loop around them
reports      what is written about it
"""

from queue_manager.local.placement.loop import Placement

__all__ = ["Placement"]
