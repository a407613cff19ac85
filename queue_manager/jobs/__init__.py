"""A Job and its Workload: `decide` returns the next of `planned_writes`, and `controller` carries it out.

`webhook` validates Jobs. `decide` and the modules of rules are pure. `write_conflicts` handles writes that were decided
on an outdated cache. `job_permits` answers the Job controller which Jobs may have pods.
"""
