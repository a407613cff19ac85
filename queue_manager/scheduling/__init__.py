"""The decisions of admission, pure: which Workload reserves which quota. The shell around it is `scheduler`.

Modules:

    cycle                one admission cycle over the heads of all ClusterQueues
    nomination           what one head could get: flavors, and victims
    victim_search        the victims of a Workload that fits only without them; `preemption_candidates`: among which
                         Workloads; `fair_preemption`: with fair sharing; `planned_usage`: the quota that is kept for
                         the preemptor while they stop
    backfill             which Workloads may pass a head that waits for quota; `execution_time`: how long one may run,
                         and until when it is not preempted
    flavor_assignment    a flavor for each resource of a Workload; `flavor_matching`, `node_matching`: taints and labels
    partial_admission    fewer pods, if not all of them fit
    admission_evidence   the numbers behind a decision; `preemption_advice`: which changes would let one preempt
    quota_state          ClusterQueues, Cohorts, flavors, and the quota that each Workload holds; `holdings`: of one
    reachable_quota      the most that a refused Workload could get, which bounds whom released quota helps
    quota_tree           nominal quota, borrowing and lending; `quota_forest`: the trees that the names of parents form
    fair_sharing         dominant resource shares, and the order of heads by them
    usage_decay          the past usage of LocalQueues
    queue_order          which Workload of a ClusterQueue comes first; `workload_info`: what else is read of one
    pod_requests         the requests of one pod; `limits_and_overhead`: with those of LimitRanges and RuntimeClasses;
                         `resource_rules`: as the configuration counts them; `amounts`: as exact integers
"""
