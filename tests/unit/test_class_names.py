"""The name of a public class occurs once, with the exceptions that queue_manager/ARCHITECTURE.md names."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Where a kind of an API has the same name in each form, or a section of settings has the name of its field.
FORMS = (
    "job_controller/model.py",
    "queue_manager/api/models",
    "queue_manager/api/types.py",
    "queue_manager/api/pod_template_shape.py",
    "queue_manager/visibility/wire_types.py",
    "queue_manager/configuration",
    "queue_manager/installation/settings.py",
)
# Sections of the configuration that have the name of what they configure.
SECTIONS = ("JobController", "Metrics", "VisibilityServer", "Preemption")


def test_the_name_of_a_public_class_occurs_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in ("job_controller", "queue_manager"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 700
    assert {name: found for name, found in places.items() if len(outside(found)) > 1 or mixed(name, found)} == {}


def outside(found: list[str]) -> list[str]:
    return [path for path in found if not path.startswith(FORMS)]


def mixed(name: str, found: list[str]) -> bool:
    """Whether the name means both a kind or a section of settings, and something else."""
    return len(found) > 1 and bool(outside(found)) and name not in SECTIONS
