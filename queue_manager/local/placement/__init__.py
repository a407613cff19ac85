"""Pod placement: the scheduler of the embedded cluster.

node_choice       the node that a pod gets, and why others do not fit (pure)
pod_preemption    victims for a pod that fits nowhere (pure)
node_usage        requests held and reserved on the nodes
placement_loop    the pending pods and the rounds that place them
placement_writes  bindings, conditions and Events
"""

from queue_manager.local.placement.placement_loop import Placement

__all__ = ["Placement"]
