"""The plan of `sluice adopt` as records."""

from __future__ import annotations

import pytest

from queue_manager.adoption.losses import AdoptedObjects, losses
from queue_manager.cli import adopt
from queue_manager.cli.adoption_reading import KueueCluster
from queue_manager.cli.arguments import parser
from queue_manager.cli.exit_codes import EXIT_NEVER, CommandRefused
from queue_manager.configuration.config_map import KEY

CRD = {
    "metadata": {"name": "workloads.kueue.x-k8s.io"},
    "spec": {"names": {"kind": "Workload"}, "versions": [{"name": "v1beta1", "storage": True}]},
    "status": {"storedVersions": ["v1beta1"]},
}


def test_a_plan_is_one_list_of_what_is_lost_and_changed() -> None:
    objects = AdoptedObjects(ignored_settings=["multiKueue: is not done"])
    rows = adopt.plan(KueueCluster(objects, (), None, (CRD,)), losses(objects))
    assert [(row.about, row.object, row.what) for row in rows] == [
        ("loss", "KueueConfig", "multiKueue: is not done"),
        ("change", "workloads.kueue.x-k8s.io", adopt.LATER),
    ]


def test_the_next_step_keeps_kueues_configuration_only_if_it_decides_anything() -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"

    def cluster(text: str) -> KueueCluster:
        meta = {"name": "kueue-manager-config", "namespace": "ns"}
        return KueueCluster(AdoptedObjects(), (), {"metadata": meta, "data": {KEY: text}}, ())

    default, own = cluster(head), cluster(f"{head}manageJobsWithoutQueueName: true\n")
    assert [adopt.plan(default, []), adopt.next_steps(default, "ns")] == [[], adopt.NEXT.format(namespace="ns")]
    [row] = adopt.plan(own, [])
    assert (row.about, row.object, row.what) == ("change", "ConfigMap ns/kueue-manager-config", adopt.CONFIGURED)
    assert r"-o jsonpath='{.data.controller_manager_config\.yaml}' > kueue-config.yaml" in adopt.next_steps(own, "ns")


@pytest.mark.parametrize("way", [["--apply"], ["--undo", "f"]])
def test_a_format_for_programs_is_refused_where_the_command_reports_its_steps(way: list[str]) -> None:
    with pytest.raises(CommandRefused) as refused:
        adopt.run(parser().parse_args(["adopt", "-o", "json", *way]))
    assert refused.value.code == EXIT_NEVER
