"""Each reason has a page, whose commands exist; config/REASONS.md is the one source of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

import job_controller.condition_types
import job_controller.event_reasons
import job_controller.reasons
from queue_manager import assets
from queue_manager.api import event_reasons, reasons
from queue_manager.cli.arguments import parser
from queue_manager.lifecycle.pod_causes import OOM_KILLED
from queue_manager.local.agent.container_starts import (
    CONTAINER_CREATING,
    CRASH_LOOP,
    POD_INITIALIZING,
    STATUS_UNKNOWN,
)
from queue_manager.visibility.job_states import NOT_QUEUED
from queue_manager.visibility.reason_codes import CODES
from queue_manager.visibility.reason_pages import ReasonPage, find_page, read_pages, word_of, words

TEXT = assets.reasons().read_text(encoding="utf-8")
PAGES = read_pages(TEXT)
PRODUCT = Path(assets.__file__).parent
NO_REASONS = ("_MESSAGE", "_COMPONENT", "_DUE_TO")  # ends of the names of other texts in the modules of reasons
CONDITION_TYPES = {"FAILURE_TARGET", "SUCCESS_CRITERIA_MET", "UNSUPPORTED"}
KUBECTL = {"annotate", "delete", "describe", "edit", "get", "label", "logs"}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_page(code: str) -> None:
    page = find_page(code, PAGES)
    assert page is not None
    assert page.means
    assert page.look_at
    assert page.do
    assert page.commands


def test_a_page_without_a_code_is_about_a_reason_that_the_product_writes() -> None:
    folders = (PRODUCT, Path(job_controller.reasons.__file__).parent)
    source = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    others = [name for name in PAGES if name not in CODES]
    assert len(others) > 5
    assert [name for name in others if f'"{name}"' not in source] == []


def test_each_word_has_one_page() -> None:
    found = [word.casefold() for word in words(PAGES)]
    assert sorted(found) == sorted(set(found))
    assert len(PAGES) == len(re.findall(r"^## ", TEXT, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.reason)
def test_the_commands_of_a_page_exist(page: ReasonPage) -> None:
    quoted = re.findall(r"`(sluice [^`]+)`", " ".join((page.means, page.look_at, page.do)))
    for command in (*page.commands, *(text for text in quoted if text.split()[1] not in ("up", "manager"))):
        program, *arguments = shlex.split(command)
        if program == "sluice":
            parser().parse_args(arguments)  # exits for what it does not know
        else:
            assert (program, arguments[0] in KUBECTL) == ("kubectl", True), command


def constants(module: ModuleType) -> set[str]:
    """The reasons that a module defines."""
    return {
        value
        for name, value in vars(module).items()
        if isinstance(value, str) and name.isupper() and not name.endswith(NO_REASONS) and name not in CONDITION_TYPES
    }


WRITTEN = (
    constants(reasons)
    | constants(event_reasons)
    | constants(job_controller.condition_types)
    | constants(job_controller.reasons)
    | constants(job_controller.event_reasons)
    | {CONTAINER_CREATING, POD_INITIALIZING, CRASH_LOOP, STATUS_UNKNOWN}
    | {NOT_QUEUED, OOM_KILLED, *CODES, *map(word_of, CODES)}
)
ENDS_OF_ADMISSIONS = (
    reasons.PODS_READY_TIMEOUT,
    reasons.PREEMPTED,
    reasons.ADMISSION_CHECK,
    reasons.NODE_FAILURES,
    reasons.CLUSTER_QUEUE_STOPPED,
    reasons.LOCAL_QUEUE_STOPPED,
    reasons.DEACTIVATED,
    reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED),
    reasons.deactivated_due_to(reasons.MAX_EXEC_TIME_EXCEEDED),
    reasons.deactivated_due_to(reasons.ADMISSION_CHECK),
)


@pytest.mark.parametrize("word", sorted(WRITTEN))
def test_every_reason_that_a_command_prints_has_a_page(word: str) -> None:
    assert find_page(word, PAGES) is not None


@pytest.mark.parametrize("word", ENDS_OF_ADMISSIONS)
def test_an_eviction_has_the_page_of_its_cause(word: str) -> None:
    page = find_page(word, PAGES)
    assert page is not None
    assert word.endswith(word_of(page.reason))
    assert find_page(f"{reasons.EVICTED_DUE_TO}{word}", PAGES) == page


@pytest.mark.parametrize("word", ["WAIT/Backoff", "Backoff", "wait/backoff", "BACKOFF"])
def test_a_page_is_found_by_its_code_or_word_in_any_case(word: str) -> None:
    assert find_page(word, PAGES) == PAGES["WAIT/Backoff"]


def test_part_of_a_word_finds_no_page() -> None:
    assert find_page("Back", PAGES) is None
    assert find_page("", PAGES) is None
    assert find_page("DeactivatedDueTo", PAGES) is None


def test_a_section_without_commands_is_refused() -> None:
    with pytest.raises(ValueError, match="the page of A has other parts"):
        read_pages("# t\n\n## A\n\nMeans: x\n\nLook at: y\n\nDo: z\n")
