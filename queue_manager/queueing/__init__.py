"""Pending Workloads, pure: which one is tried next, and which ones wait for a change or for the end of a backoff.

Modules:

    queue_set          all pending Workloads, with the LocalQueues through which they were submitted
    pending            those of one ClusterQueue; `equal_workloads`: those of one shape; `parked_shapes`: the shapes
                       that wait for a change; `preemptors`: the Workloads that wait for their victims
    outcomes           what the outcome of a cycle changes in memory, and cycles in memory alone
    refresh_turns      when the messages of refused Workloads are brought up to date
    requeue_backoff    how long an evicted Workload backs off
"""
