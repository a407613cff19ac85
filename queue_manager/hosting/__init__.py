"""Attaches the controllers of `job_controller`, which know no API client, to a runtime of `engine`.

Modules:

    job_controller_port   the Job controller, its orphan sweeper and its TTL controller
    pod_controllers       pod garbage collection and stale disruptions, for clusters without kube-controller-manager
"""
