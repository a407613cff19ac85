"""The API of the queue: the kinds of kueue.x-k8s.io, and every name and text that users and tools see. Pure.

Modules:

    models                 the kinds as pydantic models: fields, descriptions and CEL rules; `crd_generation` makes CRDs
    types                  the same kinds as msgspec Structs, with the fields that the controllers read
    validation, workload_validation    what Kueue's webhooks validate and default; `webhook` mounts them
    without_effect         fields that are accepted and have no effect
    keys                   labels, annotations, finalizers
    condition_types, reasons, event_reasons, messages, policies    the strings of conditions, Events and specs
    resources              group, version, plural and kind of each resource
    workload_names         the name of the Workload of a Job
    metric_families        names, types, labels and help texts of all metrics
"""
