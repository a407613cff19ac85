"""README.md and the pages beside it: links and anchors exist, each reason is linked, and the picture can be drawn."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.local import readme_picture
from tests.local.readme import README
from tests.local.readme_picture import SUBMISSIONS, draw, lanes
from tests.unit.test_citations import anchors

ROOT = README.parent
PAGES = (
    "README.md",
    "config/CONFIGURATION.md",
    "config/REASONS.md",
    "deploy/CLUSTER.md",
    "queue_manager/local/ONE_MACHINE.md",
)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_of_a_page_exist(page: str) -> None:
    file = ROOT / page
    wrong = []
    for target, anchor in LINK.findall(file.read_text()):
        document = file.parent / target if target else file
        known = "://" in target or (document.exists() and (not anchor or anchor in anchors(document)))
        wrong += [] if known else [f"{target}#{anchor}"]
    assert wrong == []


def test_the_readme_links_each_page_of_a_reason() -> None:
    linked = set(re.findall(r"\(config/REASONS\.md#([\w-]+)\)", README.read_text()))
    assert linked == anchors(ROOT / "config/REASONS.md") - {"reasons"}


def test_the_readme_stays_short() -> None:
    """Details are on pages beside it."""
    assert len(README.read_text().splitlines()) <= 285


def view(attempts: list[tuple[int, int, str]], state: str = "Succeeded") -> dict[str, object]:
    def at(second: int) -> str:
        return f"2026-01-01T00:00:{second:02}Z"

    rows = [{"admitted": at(start), "ended": at(end), "cause": cause} for start, end, cause in attempts]
    return {"created": at(0), "state": state, "retries": {"attempts": rows}}


def test_a_picture_has_a_bar_for_each_wait_and_attempt() -> None:
    shown = {job.name: view([(2, 12, "Succeeded")]) for job in SUBMISSIONS}
    shown["train-2"] = view([(2, 5, "Preempted"), (9, 12, "Succeeded")])
    shown["broken"] = view(
        [(0, 3, "PodsReadyTimeout"), (4, 6, "DeactivatedDueToRequeuingLimitExceeded")], "Deactivated"
    )
    found = {lane.name: lane for lane in lanes(shown)}
    assert [bar.kind for bar in found["train-2"].bars] == ["waits", "runs", "waits", "runs"]
    assert [(bar.start, bar.end, bar.kind) for bar in found["broken"].bars][-1] == (4, 6, "not ready")
    drawn = ElementTree.fromstring(draw(list(found.values())))
    assert len(drawn.findall(".//{*}rect[@width='3'][@height='19']")) == 3  # stopped: once, and twice


def test_the_shipped_picture_shows_each_job() -> None:
    texts = {
        element.text for element in ElementTree.fromstring(readme_picture.PICTURE.read_text()).iter() if element.text
    }
    assert {job.name for job in SUBMISSIONS} <= texts
