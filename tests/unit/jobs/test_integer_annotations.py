"""Integers in annotations: read as by Go, and never beyond what Python converts."""

import pytest

from job_controller.annotations import integer
from job_controller.api_rules.field_errors import sentence
from queue_manager.api import keys
from queue_manager.jobs.webhook import validate_job
from queue_manager.jobs.workload_manifest import max_execution_time, pod_set
from queue_manager.visibility.never_fits import smallest_count
from tests.unit.jobs.test_decide import job

HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        *(("0", 32, 0), ("7", 32, 7), ("007", 32, 7), ("+7", 32, 7), ("-7", 32, -7), ("0" * 5000 + "7", 32, 7)),
        *((str(2**31 - 1), 32, 2**31 - 1), (str(2**31), 32, None), (str(2**31), 64, 2**31)),
        *((str(-(2**31)), 32, -(2**31)), (str(-(2**31) - 1), 32, None)),
        *((str(2**63 - 1), 64, 2**63 - 1), (str(2**63), 64, None), (str(10**19), 64, None), (HUGE, 64, None)),
        *((text, 64, None) for text in ("", "x", "+", "--7", "1_0", " 7", "7\n", "1.5", "٣", "²", "0x7")),
    ],
    ids=lambda value: str(value)[:22],
)
def test_an_integer_is_read_as_go_reads_it(text, bits, number):
    assert integer(text, bits) == number


@pytest.mark.parametrize(
    ("text", "count", "error"),
    [
        ("2", 2, ""),
        ("+2", 2, ""),
        ("0", None, "should be between 0 and 4"),
        ("5", 5, "should be between 0 and 4"),
        ("-1", None, "should be between 0 and 4"),
        ("two", None, 'strconv.Atoi: parsing "two": invalid syntax'),
        ("٣", None, 'strconv.Atoi: parsing "٣": invalid syntax'),
        (HUGE, None, f'strconv.Atoi: parsing "{HUGE}": value out of range'),
    ],
    ids=lambda value: str(value)[:22],
)
def test_the_minimum_parallelism_is_read_or_refused(text, count, error):
    """An unreadable value that bypassed admission counts as absent."""
    notes = {keys.MIN_PARALLELISM: text}
    tree = {"metadata": {"annotations": notes}, "spec": {"suspend": True, "parallelism": 5, "completions": 5}}
    assert [sentence([found]).endswith(error) for found in validate_job(tree)] == ([True] if error else [])
    annotated = job(annotations=notes, parallelism=5, completions=5)
    assert pod_set(annotated).get("minCount") == count
    assert smallest_count(annotated) == (count or 5)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("0", None), (str(2**31), None), ("9" * 63, None), ("x", None)]
)
def test_a_maximum_execution_time_beyond_68_years_is_none(text, seconds):
    """The Workload's field has 32 bits, and a larger value would prevent its creation."""
    assert max_execution_time(job(labels={keys.MAX_EXEC_TIME: text})) == seconds
