"""Which configurations of Kueue are more than its defaults."""

from __future__ import annotations

import pytest

from queue_manager.adoption.kueue_configuration import has_own_settings, text_of

# As Kueue's manifests install it.
STOCK = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
controller:
  groupKindConcurrency:
    Job.batch: 5
    Pod: 5
    Workload.kueue.x-k8s.io: 5
    LocalQueue.kueue.x-k8s.io: 1
    Cohort.kueue.x-k8s.io: 1
    ClusterQueue.kueue.x-k8s.io: 1
    ResourceFlavor.kueue.x-k8s.io: 1
clientConnection:
  qps: 50
  burst: 100
integrations:
  frameworks:
  - "batch/job"
  - "kubeflow.org/mpijob"
  - "ray.io/rayjob"
  - "jobset.x-k8s.io/jobset"
"""


@pytest.mark.parametrize("text", ["", STOCK], ids=["absent", "stock"])
def test_the_defaults_are_no_settings_of_the_cluster(text: str) -> None:
    assert not has_own_settings(text)


@pytest.mark.parametrize(
    "section",
    [
        "manageJobsWithoutQueueName: true",
        "waitForPodsReady: {enable: true, timeout: 5m}",
        "fairSharing: {preemptionStrategies: [LessThanInitialShare]}",
        "notAField: true",
    ],
)
def test_a_section_that_differs_is_a_setting_of_the_cluster(section: str) -> None:
    assert has_own_settings(f"{STOCK}{section}\n")


def test_copied_labels_are_a_setting_whatever_kinds_are_listed() -> None:
    assert has_own_settings(f"{STOCK}  labelKeysToCopy: [team]\n")


def test_a_cluster_without_config_map_has_no_text() -> None:
    assert [text_of(None), text_of({"metadata": {}}), text_of({"data": None})] == ["", "", ""]
