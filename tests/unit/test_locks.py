"""The image's locked packages agree with pyproject.toml and deploy/constraints.txt: if one fails, run `make lock`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
LOCKS = [DEPLOY / "requirements.lock", DEPLOY / "image" / "tools.lock"]


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def pins(file: Path) -> dict[str, str]:
    """Versions by package."""
    found = re.findall(r"^([\w.-]+)==([\w.+!-]+)", file.read_text(), re.MULTILINE)
    return {normal(name): version for name, version in found}


def required(requirements: list[str]) -> set[str]:
    """The names of packages in lines of requirements."""
    return {normal(found[0]) for line in requirements if (found := re.match(r"[\w.-]+", line))}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_locked_versions_are_those_of_the_constraints(lock: Path) -> None:
    constraints = pins(DEPLOY / "constraints.txt")
    locked = pins(lock)
    assert locked
    assert {name: constraints.get(name, version) for name, version in locked.items()} == locked


def test_every_locked_package_of_the_product_is_constrained() -> None:
    """So that CI tests the versions that the image has."""
    assert pins(LOCKS[0]).keys() - pins(DEPLOY / "constraints.txt").keys() == set()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_package_has_hashes(lock: Path) -> None:
    entries = re.split(r"^(?=[\w.-]+==)", lock.read_text(), flags=re.MULTILINE)[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_every_dependency_of_the_product_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert required(project["dependencies"]) - pins(LOCKS[0]).keys() == set()


def test_every_tool_of_the_build_stage_is_locked() -> None:
    assert required((DEPLOY / "image" / "tools.in").read_text().splitlines()) - pins(LOCKS[1]).keys() == set()
