"""The shell of admission: controllers that keep the pure cores up to date, and write what these decide.

Modules:

    admission_loop         runs admission cycles and writes admissions and refusals (`scheduling`, `queueing`)
    quota_cache            pending Workloads and quota in use, derived from the caches
    protections            tries refused Workloads again when a minimum runtime is over
    workload_controller    carries out the life cycle of each Workload (`lifecycle`)
    workload_writer        the only writer of the status of Workloads
    pending_reasons        when the reason of a pending Workload is written
    preemptions            evicts the victims of a preemptor
    write_queue            which status is written next (pure)
    released_quota         when a cohort that released quota is tried again (pure)
    queue_status           the status of ClusterQueues, LocalQueues and Cohorts; finalizers of ClusterQueues and flavors
    usage_sampling         samples the past usage of LocalQueues (admission fair sharing)
    fair_sharing_status    the parts of these statuses that fair sharing has (pure)
    job_pods               which pods of a Job use a node, or cannot be scheduled
    attempt_causes         why the pods of the present attempt are not ready
    past_causes            why the last pod of a Job ended, beyond the life of the pod
    rejection_delays       Events about writes that the API server rejects, and the delay of the next one
    cycle_metrics          metrics of admission cycles
    cycle_trail            which change a decision of a cycle follows from
    without_effect_events  Events about fields without effect
"""
