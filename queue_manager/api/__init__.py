"""The API of the queue: the kinds of kueue.x-k8s.io, and every name and text that users and tools see. Pure.

Modules:

    models                 the kinds as pydantic models: fields, descriptions and CEL rules; `crd_generation` makes CRDs
    conversion             objects of v1beta1 in v1beta2 and back; the conversion webhook as a function
    crd_conversion         definitions that call this webhook
    types                  the same kinds as msgspec Structs, with the fields that the controllers read
    pod_template_shape     the types of the fields that are read of a pod template, which the CRD leaves open
    queue_validation, workload_validation    what Kueue's webhooks validate and default; `queue_admission` mounts them
    without_effect         fields that are accepted and have no effect
    keys                   labels, annotations, finalizers
    condition_types, reasons, event_reasons, messages, policy_values    the strings of conditions, Events and specs
    component_names        names of the manager's Services, Secret, ConfigMap and service account
    api_resources          group, version, plural and kind of each resource
    workload_names         the name of the Workload of a Job
    metric_families        names, types, labels and help texts of all metrics
"""
