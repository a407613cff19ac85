"""Every metric that Sluice serves: name, type, labels, meaning and buckets. Pure data.

The metrics registry is made from this table and refuses a name that is not in it, so each family has a HELP text.
`python -m queue_manager.api.metric_families FILE` writes the table for people (config/METRICS.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # Prometheus' default buckets
TO_3_HOURS = (1.0, *(2.5 * 2**k for k in range(13)))
TO_11_HOURS = (1.0, *(2.5 * 2**k for k in range(15)))


class Family(NamedTuple):
    """One metric. `buckets` are the upper bounds of a histogram, ascending."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = SECONDS


# --- the queue, under the names of Kueue -------------------------------------------------------------------


def _kueue(name: str, kind: Kind, labels: str, help: str, buckets: tuple[float, ...] = SECONDS) -> Family:
    return Family(f"kueue_{name}", kind, (*labels.split(), "replica_role"), help, buckets)


def _of_both(
    name: str,
    kind: Kind,
    labels: str,
    help: str,
    buckets: tuple[float, ...] = TO_3_HOURS,
    local_buckets: tuple[float, ...] = TO_3_HOURS,
) -> tuple[Family, Family]:
    """A metric of ClusterQueues and its twin for LocalQueues."""
    return (
        _kueue(name, kind, f"cluster_queue {labels}", f"{help}, per ClusterQueue.", buckets),
        _kueue(f"local_queue_{name}", kind, f"name namespace {labels}", f"{help}, per LocalQueue.", local_buckets),
    )


_QUOTA = "cluster_queue cohort flavor resource"
_LOCAL_QUOTA = "name namespace flavor resource"
_COHORT_QUOTA = "cohort flavor resource"
_EVICTION = "priority_class reason underlying_cause"

EVENTS_OF_WORKLOADS = (
    _kueue("admission_attempts_total", "counter", "result", "Admission cycles; success: at least one was admitted."),
    _kueue("admission_attempt_duration_seconds", "histogram", "result", "Duration of an admission cycle."),
    _kueue(
        "admission_cycle_preemption_skips",
        "gauge",
        "cluster_queue",
        "Preemptions that the last admission cycle with such a case skipped, because others took the quota or victims.",
    ),
    *_of_both("quota_reserved_workloads_total", "counter", "priority_class", "Quota reservations"),
    *_of_both("admitted_workloads_total", "counter", "priority_class", "Admissions"),
    _kueue(
        "cohort_subtree_admitted_workloads_total",
        "counter",
        "cohort priority_class",
        "Admissions in the ClusterQueues below the cohort.",
    ),
    *_of_both("finished_workloads_total", "counter", "priority_class", "Workloads that finished"),
    *_of_both("evicted_workloads_total", "counter", _EVICTION, "Evictions"),
    _kueue("preempted_workloads_total", "counter", "preempting_cluster_queue reason", "Preemptions."),
    _kueue(
        "evicted_workloads_once_total",
        "counter",
        f"cluster_queue {_EVICTION}",
        "Workloads that were evicted at least once for this reason.",
    ),
    *_of_both(
        "quota_reserved_wait_time_seconds",
        "histogram",
        "priority_class",
        "Time from creation or the last requeue until quota was reserved",
    ),
    *_of_both(
        "admission_wait_time_seconds",
        "histogram",
        "priority_class",
        "Time from creation or the last requeue until admission",
        TO_11_HOURS,
    ),
    *_of_both(
        "admission_checks_wait_time_seconds",
        "histogram",
        "priority_class",
        "Time from quota reservation until admission, of Workloads with admission checks",
    ),
    *_of_both(
        "ready_wait_time_seconds",
        "histogram",
        "priority_class",
        "Time from creation or the last requeue until all pods were ready",
    ),
    *_of_both(
        "admitted_until_ready_wait_time_seconds",
        "histogram",
        "priority_class",
        "Time from admission until all pods were ready",
    ),
    *_of_both(
        "execution_time_seconds",
        "histogram",
        "priority_class",
        "Time from admission until the Workload finished",
        TO_11_HOURS,
        TO_11_HOURS,
    ),
    _kueue(
        "pods_ready_to_evicted_time_seconds",
        "histogram",
        "cluster_queue reason underlying_cause",
        "Time for which all pods had been ready when their Workload was evicted.",
        TO_3_HOURS,
    ),
    _kueue(
        "workload_eviction_latency_seconds",
        "histogram",
        "cluster_queue reason",
        "Time from an eviction until its quota was released.",
        TO_3_HOURS,
    ),
    _kueue(
        "workload_creation_latency_seconds",
        "histogram",
        "job_kind",
        "Time from the creation of a Job until its Workload was created.",
        tuple(0.01 * 2**k for k in range(11)),
    ),
)

STATE_OF_QUEUES = (
    *_of_both("pending_workloads", "gauge", "status", "Workloads that wait for quota: active or inadmissible"),
    _kueue(
        "pending_scheduling_hashes",
        "gauge",
        "cluster_queue status",
        "Distinct shapes of requests among the pending Workloads.",
    ),
    *_of_both("reserving_active_workloads", "gauge", "", "Workloads that hold quota and have not finished"),
    *_of_both("admitted_active_workloads", "gauge", "", "Workloads that are admitted and have not finished"),
    *_of_both("finished_workloads", "gauge", "", "Finished Workloads that have not been deleted"),
    _kueue(
        "unadmitted_workloads",
        "gauge",
        "cluster_queue reason underlying_cause",
        "Workloads that are not admitted, by the reason of Admitted and of QuotaReserved, per ClusterQueue.",
    ),
    _kueue(
        "local_queue_unadmitted_workloads",
        "gauge",
        "name namespace cluster_queue reason underlying_cause",
        "Workloads that are not admitted, by the reason of Admitted and of QuotaReserved, per LocalQueue.",
    ),
    _kueue(
        "cluster_queue_status",
        "gauge",
        "cluster_queue status",
        "1 for the status that the ClusterQueue has, 0 for the others: pending, active, terminating.",
    ),
    _kueue(
        "local_queue_status",
        "gauge",
        "name namespace active",
        "1 for the value that the LocalQueue's Active condition has, 0 for the others.",
    ),
    _kueue("cluster_queue_resource_pending", "gauge", "cluster_queue resource", "Requests of the pending Workloads."),
    _kueue("cluster_queue_resource_reservation", "gauge", _QUOTA, "Reserved quota, per ClusterQueue."),
    _kueue("cluster_queue_resource_usage", "gauge", _QUOTA, "Quota of the admitted Workloads, per ClusterQueue."),
    _kueue("cluster_queue_nominal_quota", "gauge", _QUOTA, "Nominal quota of the ClusterQueue."),
    _kueue("cluster_queue_borrowing_limit", "gauge", _QUOTA, "What the ClusterQueue may borrow; +Inf without a limit."),
    _kueue("cluster_queue_lending_limit", "gauge", _QUOTA, "What the ClusterQueue may lend; +Inf without a limit."),
    _kueue("local_queue_resource_reservation", "gauge", _LOCAL_QUOTA, "Reserved quota, per LocalQueue."),
    _kueue("local_queue_resource_usage", "gauge", _LOCAL_QUOTA, "Quota of the admitted Workloads, per LocalQueue."),
    _kueue(
        "cohort_subtree_quota",
        "gauge",
        _COHORT_QUOTA,
        "Nominal quota of the cohort, and what its children may lend to it.",
    ),
    _kueue(
        "cohort_subtree_resource_reservations",
        "gauge",
        _COHORT_QUOTA,
        "Reserved quota, of all ClusterQueues below the cohort.",
    ),
    _kueue(
        "cohort_subtree_admitted_active_workloads",
        "gauge",
        "cohort",
        "Workloads that are admitted below the cohort and have not finished.",
    ),
    _kueue(
        "cluster_queue_weighted_share",
        "gauge",
        "cluster_queue cohort",
        "With fair sharing: the dominant resource share of the ClusterQueue; NaN if it borrows with weight 0.",
    ),
    _kueue(
        "cohort_weighted_share",
        "gauge",
        "cohort",
        "With fair sharing: the dominant resource share of the cohort; NaN if it borrows with weight 0.",
    ),
    _kueue(
        "local_queue_admission_fair_sharing_usage",
        "gauge",
        "name namespace cluster_queue",
        "With admission fair sharing: the decayed usage of the LocalQueue by its weight; +Inf with weight 0.",
    ),
    _kueue("cohort_info", "gauge", "cohort parent_cohort root_cohort", "Always 1: the cohort's place in its tree."),
    _kueue(
        "cluster_queue_info",
        "gauge",
        "cluster_queue parent_cohort root_cohort",
        "Always 1: the ClusterQueue's place in its tree of cohorts; empty labels without one.",
    ),
    Family(
        "sluice_cluster_queue_head_queued_timestamp_seconds",
        "gauge",
        ("cluster_queue",),
        "When the first pending Workload was created or last requeued, in seconds since 1970; absent without one.",
    ),
    Family(
        "sluice_cluster_queue_blocked_by_never_fitting_head",
        "gauge",
        ("cluster_queue",),
        "1: the first Workload of a StrictFIFO queue can never be admitted and blocks those behind it.",
    ),
)

# --- the Job controller, under the names of kube-controller-manager ----------------------------------------

_SYNC = ("completion_mode", "result", "action")

JOBS = (
    Family(
        "job_controller_job_sync_duration_seconds",
        "histogram",
        _SYNC,
        "Duration of one sync of a Job.",
        tuple(0.004 * 2**n for n in range(15)),
    ),
    Family("job_controller_job_syncs_total", "counter", _SYNC, "Syncs of Jobs."),
    Family(
        "job_controller_jobs_finished_total",
        "counter",
        ("completion_mode", "result", "reason"),
        "Jobs that finished, by the reason of their last condition.",
    ),
    Family(
        "job_controller_job_pods_finished_total",
        "counter",
        ("completion_mode", "result"),
        "Pods that were counted in the status of their Job.",
    ),
    Family(
        "job_controller_job_pods_creation_total",
        "counter",
        ("reason", "status"),
        "Creations of pods: new or replacements, succeeded or failed.",
    ),
    Family(
        "job_controller_job_finished_indexes_total",
        "counter",
        ("status", "backoffLimit"),
        "Completion indexes that succeeded or failed; backoffLimit: perIndex or global.",
    ),
    Family(
        "job_controller_pod_failures_handled_by_failure_policy_total",
        "counter",
        ("action",),
        "Pod failures that matched a rule of podFailurePolicy, by the rule's action.",
    ),
    Family(
        "job_controller_terminated_pods_tracking_finalizer_total",
        "counter",
        ("event",),
        "Terminated pods that got (add) or lost (delete) their tracking finalizer; the difference is not counted yet.",
    ),
    Family(
        "job_controller_jobs_by_external_controller_total",
        "counter",
        ("controller_name",),
        "Jobs created with a spec.managedBy that names another controller.",
    ),
    Family(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "histogram",
        (),
        "Time from the end of a Job's ttlSecondsAfterFinished until the Job was deleted.",
        tuple(0.1 * 2**n for n in range(14)),
    ),
    Family(
        "pod_gc_collector_force_delete_pods_total",
        "counter",
        ("namespace", "reason"),
        "Pods deleted by the pod garbage collector: terminated, orphaned, unscheduled or out-of-service.",
    ),
    Family(
        "pod_gc_collector_force_delete_pod_errors_total",
        "counter",
        ("namespace", "reason"),
        "Deletions by the pod garbage collector that failed.",
    ),
)

# --- the webhooks, under the names of controller-runtime where it has any -----------------------------------

WEBHOOKS = (
    Family(
        "controller_runtime_webhook_latency_seconds",
        "histogram",
        ("webhook",),
        "Time from a complete review to its answer, by the path of the webhook.",
        (0.001, 0.0025, *SECONDS),
    ),
    Family(
        "controller_runtime_webhook_requests_total",
        "counter",
        ("webhook", "code"),
        "Reviews by the path of the webhook and the status of the response; a refusal is a response with 200.",
    ),
    Family(
        "sluice_certificate_expiry_timestamp_seconds",
        "gauge",
        ("certificate",),
        "When the certificate that a server presents expires, in seconds since 1970.",
    ),
)

# --- how any of the controllers works ----------------------------------------------------------------------

ENGINE = (
    _kueue(
        "build_info",
        "gauge",
        "git_version git_commit build_date go_version compiler platform",
        "Always 1: the version of Sluice, its Python and its platform; what Kueue's build knows besides is empty.",
    ),
    Family(
        "sluice_api_write_duration_seconds",
        "histogram",
        ("verb", "resource"),
        "Time of a write to the API server until its response; waits for the rate limit and for Retry-After included.",
    ),
    Family(
        "leader_election_master_status",
        "gauge",
        ("name",),
        "1 while this manager holds the Lease of this name, else 0.",
    ),
    Family(
        "sluice_notifications_total",
        "counter",
        ("sink", "result"),
        "Notifications by sink (command or webhook) and result: delivered, failed (given up) or dropped (queue full).",
    ),
    Family(
        "sluice_workload_status_writes_total",
        "counter",
        ("cause",),
        "Writes of the status of Workloads, by what made the write necessary.",
    ),
    Family("sluice_history_records_written_total", "counter", (), "Records written to the history of Jobs."),
    Family(
        "sluice_history_records_dropped_total",
        "counter",
        ("reason",),
        "Records missing from the history: queue_full (database slow or unreachable) or refused (by the database).",
    ),
    Family("sluice_history_records_queued", "gauge", (), "Records that wait to be written to the history."),
    Family(
        "sluice_history_stalled_seconds",
        "gauge",
        (),
        "For how long records of the history have waited without a write; 0 below ten seconds.",
    ),
    Family(
        "sluice_history_write_failures_total",
        "counter",
        (),
        "Failures to reach the database of the history; each is tried again.",
    ),
    Family("workqueue_adds_total", "counter", ("name",), "Keys added to the work queue."),
    Family("workqueue_retries_total", "counter", ("name",), "Keys added again after a failed sync."),
    Family("workqueue_depth", "gauge", ("name",), "Keys that wait for a worker."),
    Family("workqueue_queue_duration_seconds", "histogram", ("name",), "Time for which a key waited for a worker."),
    Family("workqueue_work_duration_seconds", "histogram", ("name",), "Duration of the sync of a key."),
    Family("workqueue_unfinished_work_seconds", "gauge", ("name",), "Sum of the ages of the syncs that run."),
    Family("workqueue_longest_running_processor_seconds", "gauge", ("name",), "Age of the oldest sync that runs."),
    Family("reflector_lists_total", "counter", ("resource",), "Complete lists read from the API server."),
    Family("reflector_failures_total", "counter", ("resource",), "Lists and watches that failed and were retried."),
    Family(
        "reflector_silence_seconds",
        "gauge",
        ("resource",),
        "Time since the API server last sent a list, an event or a bookmark; bookmarks come every minute.",
    ),
    Family(
        "reflector_watch_lag_seconds",
        "histogram",
        ("resource",),
        "Time from the response to a write until the watch delivered its event; one write at a time is measured.",
    ),
    Family("reflector_undecodable_total", "counter", ("resource",), "Objects ignored because they were undecodable."),
    Family("events_dropped_total", "counter", ("component",), "Events that could not be written."),
    Family(
        "events_suppressed_total",
        "counter",
        ("component",),
        "Events that were not written because the same object had too many of them.",
    ),
)

TABLES: Mapping[str, tuple[Family, ...]] = {
    "What happens to Workloads": EVENTS_OF_WORKLOADS,
    "The state of the queues": STATE_OF_QUEUES,
    "Jobs and pods": JOBS,
    "Webhooks": WEBHOOKS,
    "The controllers themselves": ENGINE,
}
FAMILIES = tuple(family for families in TABLES.values() for family in families)

HEAD = """\
# Metrics

Generated by `make crds` from queue_manager/api/metric_families.py.

Served by `sluice up` at `/metrics` of its API server (`kubectl get --raw /metrics`) and by `sluice manager` at
`/metrics` of `metrics.bindAddress`, in Prometheus' text format or, where the Accept header requests it, in that of
OpenMetrics. A series appears when it has its first value. `sluice manager` serves them over TLS to users whom RBAC
allows `get` on the nonResourceURL `/metrics`; on a loopback address, and with `--metrics-port`, over plain HTTP.

- `replica_role` is `leader` or `follower`, or `standalone` without leader election.
- Quota gauges (`..._resource_reservation`, `..._resource_usage`, `..._nominal_quota`, `..._limit`) are served with
  `metrics.enableClusterQueueResources`; those of LocalQueues follow `metrics.localQueueMetrics`.
- Amounts of cpu are in cores, all others in the unit of the resource (memory in bytes).
"""


def render() -> str:
    """The tables of all metrics as Markdown."""
    return HEAD + "".join(f"\n## {title}\n\n{_table(families)}" for title, families in TABLES.items())


def _table(families: Iterable[Family]) -> str:
    rows = [f"| `{f.name}` | {f.kind} | {' '.join(f.labels)} | {f.help} |\n" for f in families]
    return "| name | type | labels | meaning |\n|---|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
