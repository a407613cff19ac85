"""The node agent: runs the pods bound to the local nodes as processes of this machine and reports their status.

Which pods a node takes, and keeps
  node_admission, admitted_pods     may a pod start here (pure); the pods that hold room on the node
  eviction_order, eviction_loop     which pod is evicted when memory runs out (pure); when
  memory_pressure                   the condition MemoryPressure, and allocatable resources

One pod
  agent, pod_worker,                a worker for each pod, from its binding to its end
  pod_worker_dependencies
  container_starts                  which containers to start and when, restarts and their backoff (pure)
  pod_status, readiness_probes,     what is reported about them
  termination_message
  environment, container_program,   what a container is started with
  limit_fields

Processes
  pod_processes, supervisor,        started, found again after a crash, signalled, killed; their exit codes
  session_process, escaped_processes
  output_pipes, output_keeper       their output, which a process of its own writes to logs
  cgroups, oom_killer, proc_memory  limits of memory and CPU, by the kernel or by samples of /proc
  resource_usage, usage_sampler,    what the containers used: reported, sampled while they run, read from /proc
  proc_usage
  pod_files, stop_order_file        the files that survive a crash of the agent
  pod_logs, log_trimming            logs, and how their length is limited
"""
