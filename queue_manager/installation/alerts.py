"""The alerts, with the section of the runbook that each refers to.

An alert is about what users notice (nothing is admitted, a queue stands still) or what they would notice next (no
leader, lost watches).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from job_controller.json_tree import Json

STUCK_HOURS = 6
RENEWAL_LATE_DAYS = 21  # of thirty
STALLED_HISTORY_SECONDS = 60
WIDTH = 120  # of the runbook


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule. `minutes`: how long the expression must hold."""

    name: str
    expression: str
    minutes: int
    severity: Literal["critical", "warning"]
    summary: str
    meaning: str
    check: tuple[str, ...]
    remedy: str

    @property
    def anchor(self) -> str:
        """The anchor of its section in the runbook."""
        return self.name.lower()


ALERTS = (
    Alert(
        "SluiceDown",
        "absent(leader_election_master_status)",
        5,
        "critical",
        "No Sluice manager is scraped",
        "Prometheus gets metrics from no replica. If the pods are gone, no Job is admitted, finished Jobs keep their "
        "quota, and webhooks with failurePolicy Fail refuse queued Jobs. Running Jobs keep running.",
        (
            "kubectl -n kueue-system get pods -o wide",
            "kubectl -n kueue-system describe deployment kueue-controller-manager",
            "kubectl -n kueue-system logs deployment/kueue-controller-manager --previous",
        ),
        "The last line of the log names what is missing: CRDs, permissions, the API server. If the pods run and "
        "answer, the ServiceMonitor or the NetworkPolicy keeps Prometheus out. Until a pod answers, deleted namespaces "
        "stay Terminating: their controller waits for the visibility API too (NamespaceDeletionDiscoveryFailure). If "
        "that cannot wait, delete the APIServices v1beta1.visibility.kueue.x-k8s.io and "
        "v1beta2.visibility.kueue.x-k8s.io, and install Sluice again later.",
    ),
    Alert(
        "SluiceNoLeader",
        "max by (name) (leader_election_master_status) == 0",
        5,
        "critical",
        "No Sluice manager holds the Lease {{ $labels.name }}",
        "Managers run but none holds the Lease, so nothing is admitted. A take-over normally takes under 20 seconds.",
        (
            "kubectl -n kueue-system get lease c1f6bfd2.kueue.x-k8s.io -o yaml",
            "kubectl auth can-i update leases.coordination.k8s.io -n kueue-system "
            "--as system:serviceaccount:kueue-system:kueue-controller-manager",
        ),
        "If the holder is a pod that no longer exists, the Lease expires by itself; if it is a manager outside the "
        "cluster, stop that one. If updates are refused, install the roles again.",
    ),
    Alert(
        "SluiceQueueStuck",
        f"time() - max by (cluster_queue) (sluice_cluster_queue_head_queued_timestamp_seconds) > {STUCK_HOURS * 3600} "
        f"unless on (cluster_queue) "
        f"sum by (cluster_queue) (increase(kueue_admitted_workloads_total[{STUCK_HOURS}h])) > 0",
        15,
        "warning",
        "ClusterQueue {{ $labels.cluster_queue }} has admitted nothing for six hours while its head waits",
        "The first Workload of the queue has waited for more than six hours, and no other was admitted meanwhile.",
        (
            "sluice queues",
            "sluice ps -q cq/CLUSTERQUEUE",
            "sluice explain JOB",
        ),
        "`sluice explain` of the first Job names the cause and the command that helps: a quota that is too small, a "
        "stopped queue, a borrowed quota that is in use elsewhere, an admission check without an answer.",
    ),
    Alert(
        "SluiceHeadNeverFits",
        "sluice_cluster_queue_blocked_by_never_fitting_head == 1",
        15,
        "warning",
        "ClusterQueue {{ $labels.cluster_queue }} is blocked by a Workload that can never be admitted",
        "In a StrictFIFO queue the first Workload requests more than the queue can ever have, so those behind it wait "
        "forever.",
        ("kubectl get clusterqueue CLUSTERQUEUE -o jsonpath='{.status.conditions}'", "sluice explain JOB"),
        "Raise the quota, delete the Job, or annotate the ClusterQueue with "
        '`sluice/pass-by-never-fitting-head: "true"`.',
    ),
    Alert(
        "SluiceEvictionStorm",
        'sum by (cluster_queue, reason) (rate(kueue_evicted_workloads_total{reason!="Preempted"}[15m])) > '
        "0.5 * sum by (cluster_queue) (rate(kueue_admitted_workloads_total[15m])) "
        "and sum by (cluster_queue, reason) (increase(kueue_evicted_workloads_total[15m])) > 10",
        15,
        "warning",
        "ClusterQueue {{ $labels.cluster_queue }} evicts ({{ $labels.reason }}) half of what it admits",
        "Admitted Jobs lose their quota before they finish, again and again. With reason PodsReadyTimeout their pods "
        "do not become ready in time.",
        ("sluice deactivated", "sluice show JOB", "kubectl get events -A --field-selector reason=FailedScheduling"),
        "Look at the pods of one Job: an image that cannot be pulled, nodes that have less room than the quota says, a "
        "timeout that is shorter than the start. Hold the queue meanwhile: `sluice hold cq/CLUSTERQUEUE`.",
    ),
    Alert(
        "SluiceSlowCycle",
        "histogram_quantile(0.95, sum by (le) (rate(kueue_admission_attempt_duration_seconds_bucket[10m]))) > 1",
        15,
        "warning",
        "Admission cycles take more than a second",
        "The scheduler takes long to decide, so admissions come late. Many pending Workloads of different shapes, or "
        "preemption among very many candidates, make cycles long; so does a CPU limit that is reached.",
        ("kubectl -n kueue-system top pods", "topk(5, kueue_pending_scheduling_hashes)  # in Prometheus"),
        "Raise `resources.limits.cpu`, and see which ClusterQueue has most shapes of requests.",
    ),
    Alert(
        "SluiceWatchFailures",
        "sum by (resource) (rate(reflector_failures_total[10m])) > 0.1",
        10,
        "warning",
        "Sluice cannot watch {{ $labels.resource }}",
        "Lists or watches of this kind fail and are retried, so the manager works on older objects.",
        ("kubectl -n kueue-system logs deployment/kueue-controller-manager | grep 'list or watch failed'",),
        "403: install the roles again. 404: install the CRDs again. 429 or timeouts: the API server is overloaded.",
    ),
    Alert(
        "SluiceCertificateExpires",
        f"min by (certificate) (sluice_certificate_expiry_timestamp_seconds) - time() < {RENEWAL_LATE_DAYS * 86400}",
        60,
        "critical",
        "The certificate {{ $labels.certificate }} of Sluice expires in less than three weeks",
        "A manager renews its certificate thirty days before it expires, so this one is not renewed. Once it has "
        "expired, webhooks with failurePolicy Fail refuse queued Jobs and changes of queues, and objects stored as "
        "v1beta1 cannot be read.",
        (
            "kubectl -n kueue-system logs deployment/kueue-controller-manager | grep -i certificate",
            "kubectl -n kueue-system get secret kueue-webhook-server-cert -o jsonpath='{.data.tls\\.crt}' "
            "| base64 -d | openssl x509 -noout -enddate",
            "kubectl auth can-i update secrets/kueue-webhook-server-cert -n kueue-system "
            "--as system:serviceaccount:kueue-system:kueue-controller-manager",
        ),
        "The log says which write failed: of the Secret, or of a caBundle that does not have the new CA yet. If it was "
        "refused, install the roles again; a damaged Secret is replaced without help. With "
        "`internalCertManagement.enable: false` renew the files of `webhook.certDir`.",
    ),
    Alert(
        "SluiceUndecodableObjects",
        "sum by (resource) (increase(reflector_undecodable_total[1h])) > 0",
        1,
        "warning",
        "Sluice ignores {{ $labels.resource }} that it cannot read",
        "An object does not have the form that its kind prescribes and is ignored.",
        ("kubectl get events -A --field-selector reason=Undecodable",),
        "The Event names the object and the field. Correct or delete the object.",
    ),
    Alert(
        "SluiceSyncErrors",
        "sum by (name) (rate(workqueue_retries_total[10m])) > 1",
        15,
        "warning",
        "Work queue {{ $labels.name }} of Sluice retries more than one key per second",
        "Syncs fail and are repeated: writes are refused, or an object cannot be handled.",
        ("kubectl -n kueue-system logs deployment/kueue-controller-manager --since=10m",),
        "The log names key and error. Conflicts alone are harmless; `forbidden` means that the roles are incomplete, a "
        "refusal by a webhook names the webhook.",
    ),
    Alert(
        "SluiceHistoryStalled",
        f"max(sluice_history_stalled_seconds) > {STALLED_HISTORY_SECONDS}",
        5,
        "warning",
        "Sluice does not write the history of Jobs",
        "Records of the history wait and none has been written for more than a minute: the database hangs or cannot be "
        "reached, or the thread that writes has ended. Jobs are admitted and run as before. At most 50,000 records "
        "wait in memory; later ones are dropped, and `sluice history` and `sluice report` lack them for good.",
        (
            "kubectl -n kueue-system logs deployment/kueue-controller-manager | grep history",
            "sluice history --store URL --since 1h",
            "sum(increase(sluice_history_records_dropped_total[1h]))  # in Prometheus: those that are lost",
        ),
        "The log names the error of the database. Free its disk, start it again, or correct password, NetworkPolicy "
        "or rights; the writes then continue without a restart of the manager. If the log says that the thread has "
        "ended, restart the manager: it records what the objects still show.",
    ),
)


def rule_groups(runbook: Json) -> list[Json]:
    """Return the groups of a rules file. `runbook`: the address of the runbook by the anchor of its section."""
    return [{"name": "sluice", "rules": [_rule(alert, runbook[alert.anchor]) for alert in ALERTS]}]


def _rule(alert: Alert, runbook: object) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.minutes}m",
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.meaning, "runbook_url": runbook},
    }


def runbook() -> str:
    """Return the runbook: one section per alert, in Markdown."""
    return "\n".join(["# Runbook", "", INTRODUCTION, *(line for alert in ALERTS for line in _section(alert))])


INTRODUCTION = """\
Generated by `make manifests` from queue_manager/installation/alerts.py.

One section per alert of [rules.yaml](rules.yaml). Commands assume the namespace `kueue-system`. While no manager works,
running Jobs keep running. A manager that starts again reads the state of all queues from the API server, and nothing is
lost.
"""


def _section(alert: Alert) -> Iterator[str]:
    yield f"## {alert.name}"
    yield ""
    summary = alert.summary.replace("{{ $labels.", "`").replace(" }}", "`")
    yield f"{summary} ({alert.severity}, after {alert.minutes} min)."
    yield ""
    yield from textwrap.wrap(alert.meaning, WIDTH)
    yield ""
    yield from (f"    {command}" for command in alert.check)
    yield ""
    yield from textwrap.wrap(alert.remedy, WIDTH)
    yield ""
