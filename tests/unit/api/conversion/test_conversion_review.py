"""The conversion webhook: all objects of a request, or a Failure with its reason."""

from __future__ import annotations

import pytest

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.conversion.conversion_review import answer

OLD = {"apiVersion": keys.V1BETA1, "kind": "ClusterQueue", "metadata": {"name": "x"}, "spec": {"cohort": "c"}}
NEW = {"apiVersion": keys.API_VERSION, "kind": "ClusterQueue", "metadata": {"name": "x"}, "spec": {"cohortName": "c"}}


def asked(*objects: Json, version: Json = keys.API_VERSION) -> Json:
    request = {"uid": "u", "desiredAPIVersion": version, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def test_all_objects_are_converted_in_order() -> None:
    """Those in the desired version are returned as they are."""
    assert answer(asked(OLD, NEW)) == {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": {"uid": "u", "convertedObjects": [NEW, NEW], "result": {"status": "Success"}},
    }
    assert answer(asked(version=keys.V1BETA1))["response"]["convertedObjects"] == []


@pytest.mark.parametrize(
    ("review", "uid", "message"),
    [
        (
            asked(OLD, {**OLD, "kind": "Topology"}),
            "u",
            "objects[1]: cannot convert Topology of kueue.x-k8s.io/v1beta1",
        ),
        (asked(OLD, version="v3"), "u", "objects[0]: cannot convert ClusterQueue to v3"),
        (asked(OLD, version=None), "u", "objects[0]: cannot convert ClusterQueue to None"),
        (asked({**OLD, "kind": {"a": 1}}), "u", f"objects[0]: cannot convert {{'a': 1}} of {OLD['apiVersion']}"),
        (asked("x"), "u", "request.objects is not a list of objects"),
        ({}, "", "the ConversionReview has no request"),
        ([], "", "the ConversionReview has no request"),
    ],
)
def test_an_object_that_cannot_be_converted_fails_the_review(review: Json, uid: str, message: str) -> None:
    assert answer(review)["response"] == {"uid": uid, "result": {"status": "Failure", "message": message}}
