"""Whatever happens to the controller, the Job reaches the same result, and each pod is counted once."""

from __future__ import annotations

import pytest

from tests.unit.job_controller.crashes.mortal import Fate
from tests.unit.job_controller.crashes.play import End, play
from tests.unit.job_controller.crashes.stories import STORIES, Story

EACH_STORY = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
LATE = (
    Fate(delay=3.0),
    Fate(delay=0.7),
    Fate(cut=1),
    Fate(cut=4),
    Fate(delay=2.0, cut=3),
    Fate(cut=1, forgotten=True),
    Fate(cut=3, forgotten=True),
    Fate(delay=2.0, cut=2, forgotten=True),
)


def check(story: Story, undisturbed: End, fate: Fate) -> None:
    found = play(story, fate)
    assert not found.faults, (story.name, fate, found.faults)
    assert (found.job, found.pods) == (undisturbed.job, undisturbed.pods), (story.name, fate)


@EACH_STORY
def test_story_ends_and_every_pod_is_counted_once(story: Story) -> None:
    end = play(story, Fate())
    assert not end.faults
    assert any(text.startswith(("Complete=True", "Failed=True")) for text in end.job["conditions"])
    assert not any("tracked" in text for text in end.pods)


@EACH_STORY
def test_death_before_or_after_any_write_changes_nothing(story: Story) -> None:
    undisturbed = play(story, Fate())
    for number in range(1, undisturbed.writes + 1):
        check(story, undisturbed, Fate(death=(number, "before")))
        check(story, undisturbed, Fate(death=(number, "after")))


@EACH_STORY
@pytest.mark.parametrize("fate", LATE, ids=str)
def test_late_and_broken_watches_change_nothing(story: Story, fate: Fate) -> None:
    check(story, play(story, Fate()), fate)


@EACH_STORY
def test_death_with_late_watches_changes_nothing(story: Story) -> None:
    undisturbed = play(story, Fate())
    for number in range(1, undisturbed.writes + 1, 2):
        check(story, undisturbed, Fate(death=(number, "after"), delay=1.5))
