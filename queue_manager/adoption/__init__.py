"""Taking over a cluster from Kueue, and giving it back (`sluice adopt`).

Sluice has Kueue's API, so the queues and Workloads of a cluster stay as they are: an admitted Workload keeps its quota
and its Job runs on, a pending one is tried again in the order of its priority and timestamp. This package finds out for
which Workloads that is true (`workload_fates`), what Kueue did that Sluice does not do (`losses`), and which of Kueue's
objects have to be deleted, because they call a manager that no longer runs (`kueue_installation`). All of it is pure:
objects in, rows out. `cli.adopt` reads the objects and makes the changes.
"""
