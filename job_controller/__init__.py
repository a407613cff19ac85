"""The batch/v1 Job controller: pure decisions about Jobs, and the controllers that carry them out.

The package implements the Job API of Kubernetes 1.36. `BEHAVIOUR.md` lists its rules with their sources and tests,
`DIFFERENCES.md` lists the deliberate deviations from kube-controller-manager. It imports nothing of `queue_manager`: a
host provides the ports (`ports.py`) and runs the controllers.

    What a Job and its pods are
      model.py, json_tree.py      wire types: Job and Pod as Structs, decoded JSON for whole objects
      labels.py                   label keys, annotations, finalizers
      condition_types.py, reasons.py, event_reasons.py, messages.py   the texts on which clients match
      conditions.py, times.py     reading and writing conditions; times as the API stores them
      index_intervals.py, index_set.py  completion indexes as text, as intervals, as a set
      annotations.py, quantities.py, go_text.py   numbers, quantities and quoted text as Go reads and prints them

    What one sync decides (pure functions)
      sync.py                     `decide`: the steps of one sync; calls everything below
      sync_steps.py               the steps as data, and why their order is safe against crashes
      situation.py, pods_by_state.py, pod_facts.py   the state of a Job and its pods, computed once per sync
      verdict.py                  whether the Job has failed or succeeded
      pod_count.py, pod_deletion_order.py   how many pods: which to create, and which to delete first
      pod_adoption.py             which pods belong to a Job; which it adopts or releases
      accounting.py               counting finished pods exactly once
      completion_indexes.py, backoff.py, failure_history.py, pod_failure_policy.py, success_policy.py   one policy each
      switched_off_features.py    Jobs while a feature is switched off
      job_warnings.py             Events about Jobs that cannot be handled as written

    What talks to an API server
      ports.py, options.py        what the controllers need from their host; what an admin can tune
      controller.py, perform.py   the Job controller: when to sync, and how to carry out a decision
      managed_by.py               which Jobs it handles, and which it leaves to others
      job_patches.py, pod_manifest.py, pod_identity.py   request bodies; the index a pod was created for
      orphan_finalizers.py, ttl.py   finalizers of pods without a Job; ttlSecondsAfterFinished
      pod_gc.py, disruption_target.py, stale_disruption.py   pod garbage collection and the condition DisruptionTarget

    What an API server does to Jobs
      api_rules/                  defaults, validation, stored form; the controllers import none of it
"""
