"""How any controller talks to an API server: caches, work queues, writes, Events. Knows no Jobs and no queues.

Modules:

    runtime             starts and stops everything below together; what a controller takes in its constructor
    reflector, cache    list and watch a collection into memory; `json_codec` decodes, `interning` shares equal values
    rest_client         reads and writes; the response of each write goes into the caches immediately
    workqueue           keys to sync, each at most once, with delays and retries (client-go's workqueue)
    event_recorder      Events, sent in the background; `event_correlation` aggregates and limits them
    transport_protocol  the protocol of one API server; `http_transport` over HTTP, `request_throttle` limits QPS
    renewing_transport  a transport that picks up renewed credentials, for client commands and the manager
    kubeconfig          server, credentials, certificates; `kubeconfig_shape` checks the file, `exec_plugin` runs `exec`
    metric_registry     counters, gauges, histograms and their text format
    selector_matching   label and field selectors on the client's side
    clock, clock_jumps  the wall clock, and what happens when it jumps
    call_backoff        delays between the attempts of a call: exponential, with jitter
    api_warnings        Warning headers of a response
    anonymous_connections   connections to the servers of this process: how many, and how long without trust
    log, file_descriptors   the process: log format, open files
    process_tuning      garbage collector and event loop; `kept_loop` looks the loop up once
"""
