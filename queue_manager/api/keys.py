"""Keys of labels and annotations, finalizers, and the API group of the queue.

Dashboards, kubectl plugins and users match on these strings: they are API. Keys with the prefix `sluice/` are Sluice's
own, all others are Kueue's or Kubernetes'.
"""

from __future__ import annotations

GROUP = "kueue.x-k8s.io"
API_VERSION = "kueue.x-k8s.io/v1beta2"  # stored
V1BETA1 = "kueue.x-k8s.io/v1beta1"  # served for older clients

# --- on Jobs -----------------------------------------------------------------------------------------------
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
TRUE_TEXTS = ("1", "t", "T", "TRUE", "true", "True")  # what Go's strconv.ParseBool reads as true
COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
STOPPING = "kueue.x-k8s.io/stopping"
DEFAULT_NAME = "default"  # LocalQueue and WorkloadPriorityClass of Jobs that name none
PODS_READY_TIMEOUT_OVERRIDE = "sluice/pods-ready-timeout"  # this and the next two are copied to the Workload
REQUEUING_LIMIT_OVERRIDE = "sluice/requeuing-limit"
MIN_RUNTIME = "sluice/min-runtime"  # also on a WorkloadPriorityClass, for the Jobs that have none of their own
USER = "sluice/user"  # annotation, written by the webhook, or label: whose Job it is, for the history
CREATED_BY = "sluice/created-by"  # annotation: "run" if `sluice run` made the Job, which then has no file
CANCELLED_BY = "sluice/cancelled-by"  # annotation, written by `sluice cancel` before it deletes the Job
REPLACED_BY = "sluice/replaced-by"  # annotation, written by `sluice submit --replace` before it deletes the old Job
DELETION_CAUSE = "sluice/deletion-cause"  # annotation, written by the retention before it deletes the Job
POD_CAUSE = "sluice/pod-cause"  # of a failed Job whose Workload the retention deleted: why its pods failed

# --- on ended pods: what they used, where the node knows it
INTERRUPTIONS = "sluice/interruptions"  # of a Job, by stops of `sluice up`: `lifecycle.interruptions`
CPU_SECONDS = "sluice/cpu-seconds"  # of all containers, a decimal number
PEAK_MEMORY = "sluice/peak-memory-bytes"  # the sum of the containers' peaks

# --- on nodes ----------------------------------------------------------------------------------------------
LOCAL_NODE = "sluice/local-node"  # label of a node that `sluice up` registers, "true": `visibility.node_fit`

# --- on Workloads ------------------------------------------------------------------------------------------
JOB_UID = "kueue.x-k8s.io/job-uid"
PROVREQ_PREFIX = "provreq.kueue.x-k8s.io/"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
PASS_BY = "sluice/pass-by-never-fitting-head"  # on a StrictFIFO ClusterQueue: "true"
QUOTA_OF_NODES = (
    "sluice/quota-of-nodes"  # on the first ClusterQueue of `sluice up`: the quota that it set, "CPU MEMORY"
)
PARALLELISM = "sluice/parallelism"  # on a partially admitted Job: the parallelism in the user's spec
DEACTIVATED_BY = "sluice/deactivated-by"  # on a Workload: `lifecycle.deactivated_by`
REACTIVATED_BY = "sluice/reactivated-by"  # on a Workload: `lifecycle.deactivated_by`
DEACTIVATED_FOR = "sluice/deactivated-for"  # on a Workload that a rule deactivated: the time of its DeactivationTarget
IMPORTED = "sluice/imported"  # label of a Workload that `sluice import` made: "true"
SEQUENCE = "sluice/sequence"  # order among Workloads of Jobs created in the same second
JOB_CREATED = "sluice/job-created"  # on a Workload: the creation of its Job, `scheduling.queue_order`

# --- on objects of the queue's kinds, for the way back to the other version: `conversion`
ONLY_IN_V1BETA1 = "sluice/only-in-v1beta1"  # in v1beta2: fields that v1beta2 cannot express
ONLY_IN_V1BETA2 = "sluice/only-in-v1beta2"  # in v1beta1: fields that v1beta1 cannot express

# --- on pod templates of running Jobs ----------------------------------------------------------------------
PODSET = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_NAME = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_NAME = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD = "kueue.x-k8s.io/workload"
POD_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
JOB_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
