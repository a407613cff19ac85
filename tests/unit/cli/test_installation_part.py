"""Which installed objects belong to the installation in one namespace."""

from __future__ import annotations

import pytest

from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.cli.installation_part import installation_part
from queue_manager.cli.installed_objects import Live
from queue_manager.cli.uninstall import STAYS
from queue_manager.installation import object_names
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import AdmissionPolicies, Settings

SETTINGS = Settings(admission_policies=AdmissionPolicies(enabled=True), namespaces=["default"])


def live(namespace: str) -> list[Live]:
    """The objects of an installation, with each kind that it may have."""
    return [(object_names.KINDS[obj["kind"]], obj) for obj in objects(SETTINGS, namespace)]


def both() -> list[Live]:
    """The installation in `one`, and that in `two`, which is applied later: the objects that both have are its own."""
    later = live("two")
    known = {key(each) for each in later}
    return [*(each for each in live("one") if key(each) not in known), *later]


def key(each: Live) -> tuple[str, str, str]:
    kind, obj = each
    return kind.kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def deleted(found: list[Live], namespace: str) -> set[tuple[str, str, str]]:
    """What a removal of the installation deletes."""
    return {key(each) for each in installation_part(found, namespace).objects if each[0].kind not in STAYS}


def test_objects_belong_to_the_namespaces_to_which_they_refer() -> None:
    before, last = deleted(both(), "one"), deleted(both(), "two")
    assert {namespace for _, namespace, _ in before} == {"one"}
    assert {namespace for _, namespace, _ in last} == {"", "two", "default", "kube-system"}
    assert {kind for kind, namespace, _ in last if not namespace} == {
        *("ClusterRoleBinding", "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    assert ("Role", "default", "sluice-published-config-reader-role") not in last  # all users read there


@pytest.mark.parametrize("named", ["one", ""])
def test_of_an_only_installation_all_is_deleted_but_its_namespace(named: str) -> None:
    assert deleted(live("one"), named) == {key(each) for each in live("one") if each[0].kind not in STAYS}


def test_what_is_left_in_a_namespace_is_deleted_beside_another_installation() -> None:
    rest = [each for each in both() if each[0].kind != "Deployment" or key(each)[1] == "two"]
    assert {namespace for _, namespace, _ in deleted(rest, "one")} == {"one"}
    with pytest.raises(CommandRefused, match="nothing is installed in namespace three; Sluice is installed in two"):
        installation_part(rest, "three")


def test_without_any_manager_what_is_left_without_a_namespace_is_deleted() -> None:
    """As after `helm uninstall`, or an interrupted removal."""
    rest = [each for each in live("one") if each[0].kind == "ClusterRole"]
    assert deleted(rest, "kueue-system") == {key(each) for each in rest}
    hooks = [each for each in live("one") if each[0].kind == "MutatingWebhookConfiguration"]
    assert deleted(hooks, "kueue-system") == set()
    assert installation_part(hooks, "kueue-system").kept == hooks
