"""The embedded cluster of `sluice up`: a Kubernetes API server, its controllers and a node, in one process.

`local_cluster` starts and stops it. The queue and the Job controller run in it unchanged: they reach its API server
through an `engine.Transport`, as they reach that of a real cluster. The server is also used without the node agent: by
`cluster_objects`, for a manager without rights in the whole cluster, and by `simulation`, in virtual time.

A request passes `server`, which decodes, admits and validates it by its kind, and `storage`. From there the change
reaches watches and `controllers`; `placement` binds a new pod to a node, and `agent` runs it.

The API server
  server                        requests to responses: verbs, admission, watches, over TLS or without a socket
  storage                       the objects under one resourceVersion, their changes for watches, the journal on disk
  kinds, schema, cel            the rules of each kind: defaults and validation, structure, validation rules of CRDs
  patching, apply               merge, JSON and strategic merge patches; server-side apply and managedFields
  discovery                     the API groups, resources and OpenAPI documents that are published
  status_errors,                errors as metav1.Status; limits on the content of a request
  request_limits
  worker_process                validation that would block the event loop, in a process of its own
  disabled_fields,              admission plugins
  unsupported_pod_fields,
  job_warnings_plugin,
  pod_priority
  data                          the types of the built-in kinds, generated from a real API server

What acts on the objects
  controllers                   garbage collection, namespace deletion, event expiry, taint eviction
  placement                     the pod scheduler
  agent                         the node agent, which runs containers as processes of this machine
  node_registration             Node objects that represent shares of this machine
  pod_writes, pod_disruption    writes to pods that placement, agent and controllers share
  container_logs_protocol       how the API server reads the logs that the agent keeps
  first_queue                   the queue of a new cluster, and its quota
  job_interruptions             when the cluster was stopped, recorded on its Jobs

Access
  kubeconfig_file, private_files, loopback_certificate

DIFFERENCES.md lists where the API server differs from kube-apiserver, ONE_MACHINE.md says how commands run.
"""
