"""Taking over a cluster from Kueue, and giving it back (`sluice adopt`).

Sluice has Kueue's API, so the queues and Workloads of a cluster stay as they are: an admitted Workload keeps its quota
and its Job runs on, a pending one is tried again in the order of its priority and timestamp. What remains to do is to
find out which Workloads that is true for (`workload_fates`), what Sluice would not do that Kueue did (`losses`), and
which of Kueue's objects have to go because they call a manager that no longer runs (`kueue_installation`). All of it is
pure: objects in, rows out. `cli.adopt` reads the objects and makes the changes.
"""
