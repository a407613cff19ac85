"""Pending Workloads, pure: which one is tried next, and which ones wait for a change or for the end of a backoff.

Modules:

    pending            the pending Workloads of one ClusterQueue
    queue_set          all of them, with the LocalQueues through which they were submitted
    requeue_backoff    how long an evicted Workload backs off
"""
