"""CRDs without the webhook that converts their objects: step by step, as an interrupted command leaves them."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.model import Key
from queue_manager.api.crd_conversion import converted_by, service
from queue_manager.api.crd_generation import crd
from queue_manager.api.models import KINDS
from queue_manager.installation.conversion_removal import FIELD_MANAGER, conversion_service, next_step, served_alone

Json = dict[str, Any]
OTHERS = [{"manager": "kubectl", "operation": "Apply"}, {"manager": "sluice", "operation": "Update"}]
OURS = {"manager": FIELD_MANAGER, "operation": "Update"}


def stored(definition: Json, *versions: str, managers: list[Json] = OTHERS) -> Json:
    """The definition as an API server has it."""
    metadata = {**definition["metadata"], "resourceVersion": "7", "managedFields": managers}
    return {**definition, "metadata": metadata, "status": {"storedVersions": list(versions)}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_definition_without_conversion_is_that_of_sluice_crds(kind: Any) -> None:
    plain = crd(kind)
    installed = stored(converted_by(plain, service()), "v1beta2")
    if conversion_service(installed) is None:
        assert next_step(installed) is None
        return
    assert conversion_service(installed) == Key("kueue-system", "sluice-conversion-service")
    change = next_step(installed)
    assert change is not None
    assert change["spec"]["versions"] == plain["spec"]["versions"]
    assert change["spec"]["conversion"] == {"strategy": "None", "webhook": None}
    assert change["metadata"] == {"resourceVersion": "7"}


def test_the_second_step_gives_up_the_fields_that_the_first_has_set() -> None:
    reset = stored(crd(KINDS[0]), "v1beta2", managers=[*OTHERS, OURS])
    change = next_step(reset)
    assert change == {"metadata": {"resourceVersion": "7", "managedFields": OTHERS}}
    assert next_step(stored(reset, "v1beta2")) is None


@pytest.mark.parametrize(
    ("versions", "alone"), [(["v1beta2"], "v1beta2"), (["v1beta1", "v1beta2"], ""), ([], "v1beta2")]
)
def test_a_version_is_served_alone_if_all_objects_are_stored_in_it(versions: list[str], alone: str) -> None:
    assert served_alone(stored(crd(KINDS[0]), *versions)) == alone
