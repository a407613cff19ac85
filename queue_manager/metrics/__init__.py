"""The metrics of the queue, with Kueue's names and labels (`api.metric_families`, config/METRICS.md).

Modules:

    queue_metrics       counters and histograms, from the conditions of Workloads
    gauges              gauges, computed for each exposition
    eviction_counters   counters of evictions
    build_info          the version that runs
"""
