"""The basename of a module occurs once, except where modules have the same role for different packages or versions."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("job_controller", "queue_manager")
# A kind of an API has its name in each of these: its models, those of the older version, and the conversion of both.
FORMS = {"queue_manager/api/models", "queue_manager/api/models/v1beta1", "queue_manager/api/conversion"}
# The places of a basename that has the same role in each, and the role.
SAME_ROLE: dict[str, tuple[set[str], str]] = {
    "condition_types": ({"job_controller", "queue_manager/api"}, "condition types of batch/v1, and of Kueue's API"),
    "event_reasons": ({"job_controller", "queue_manager/api"}, "reasons of Events about Jobs, and about Workloads"),
    "messages": ({"job_controller", "queue_manager/api"}, "messages of conditions and Events, by the same API"),
    "reasons": ({"job_controller", "queue_manager/api"}, "reasons of conditions, by the same API"),
    "controller": ({"job_controller", "queue_manager/jobs"}, "the reconciler of Jobs: their pods, or their Workloads"),
}


def test_the_basename_of_a_module_occurs_once() -> None:
    places = folders_by_name()
    assert len(places) > 600
    repeated = {name: folders for name, folders in places.items() if len(folders) > 1}
    assert {name: folders for name, folders in repeated.items() if not is_excepted(name, folders)} == {}
    assert SAME_ROLE.keys() <= repeated.keys(), "an exception that nothing needs"


def folders_by_name() -> dict[str, set[str]]:
    """The folders of each basename of the product, except __init__."""
    places: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.stem != "__init__":
                places[path.stem].add(path.parent.relative_to(ROOT).as_posix())
    return places


def is_excepted(name: str, folders: set[str]) -> bool:
    return folders <= FORMS or (name in SAME_ROLE and folders == SAME_ROLE[name][0])
