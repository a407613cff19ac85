"""The node agent: runs the pods bound to the local nodes as processes of this machine and reports their status.

Which pods a node takes, and keeps
  node_admission, pod_admitter      may a pod start here (pure); the state on which that is decided
  eviction_order, eviction_loop     which pod is evicted when memory runs out (pure); when
  node_conditions                   allocatable resources, and MemoryPressure

One pod
  agent, worker, worker_dependencies   a worker for each pod, from its binding to its end
  container_starts                  which containers to start and when, restarts and their backoff (pure)
  status, readiness, termination_message   what is reported about them
  environment, limits               what a container is started with

Processes
  pod_processes, supervisor,       started, found again after a crash, signalled, killed; their exit codes
  escaped_processes
  cgroups, oom_killer, memory       limits of memory and CPU, by the kernel or by samples
  resource_usage, usage_samples, usage_sampler   what the containers used
  layout, stop_order_file           the files that survive a crash of the agent
  pod_logs, log_trimming            logs, and how their length is limited
"""
