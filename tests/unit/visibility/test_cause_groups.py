"""Groups of deactivated Jobs by cause, and the text that selects them."""

from __future__ import annotations

import shlex

from queue_manager.visibility.cause_groups import CauseGroup, cause_groups, has_cause, short_action, with_cause
from queue_manager.visibility.deactivated_jobs import DeactivatedJob, deactivated_jobs
from tests.unit.visibility.build import at, cond, wire, workload

LIMIT = "DeactivatedDueToRequeuingLimitExceeded"


def row(name: str, cause: str, seconds: float = 0, namespace: str = "default") -> DeactivatedJob:
    """The row of a Workload that was deactivated with this cause of its pods."""
    attempt = {"start": wire(0), "end": wire(seconds), "reason": LIMIT, "podCause": cause}
    found = workload(
        name,
        namespace=namespace,
        active=False,
        conditions=[cond("Evicted", reason=LIMIT, seconds=seconds)],
        status={"requeueHistory": {"attempts": [attempt]}},
    )
    (only,) = deactivated_jobs([found], (), at(100))
    return only


def seen(group: CauseGroup) -> tuple[str, int, str]:
    return group.cause, group.count, group.example


def test_causes_that_differ_only_in_what_varies_are_one_group() -> None:
    rows = [
        row("sort-1", "exit 3: cannot open /data/sort-1.csv after 12345 ms", 1),
        row("sort-2", "exit 3: cannot open /data/sort-2.csv after 777 ms", 2),
        row("other", "exit 4: cannot open", 3),
        row("boom", "exit 3: boom", 4),
    ]
    assert [seen(group) for group in cause_groups(rows)] == [
        ("exit 3: cannot open /data/….csv after … ms", 2, "sort-2"),
        ("exit 3: boom", 1, "boom"),
        ("exit 4: cannot open", 1, "other"),
    ]


def test_hosts_and_ports_vary_but_exit_codes_and_lines_of_programs_do_not() -> None:
    for causes, groups in (
        (["connection refused to 10.0.0.1:80", "connection refused to 10.0.0.2:80"], ["connection refused to …"]),
        (["no route to 10.0.0.1.", "no route to 10.0.0.2."], ["no route to …."]),
        (["cannot reach db-1:5432", "cannot reach db-2.team:5433"], ["cannot reach …"]),
        (["dial tcp [fd00::1]:80: refused", "dial tcp [fd00::2]:80: refused"], ["dial tcp …: refused"]),
        (["StartError (exit 127)"], ["StartError (exit 127)"]),
        (["exit 137", "exit 143"], ["exit 137", "exit 143"]),
        (["exit 3: a.py:12: boom", "exit 3: a.py:13: boom"], ["exit 3: a.py:12: boom", "exit 3: a.py:13: boom"]),
        (["took 1234 ms of 5000", "took 999 ms of 5000"], ["took … ms of 5000"]),
    ):
        found = cause_groups(row(name, cause) for name, cause in zip("ab", causes, strict=False))
        assert [group.cause for group in found] == groups


def test_the_text_of_a_group_selects_its_jobs() -> None:
    rows = [row("sort-1", "exit 3: it can't open sort-1 (1234)"), row("sort-2", "exit 3: it can't open sort-2 (99999)")]
    (group,) = cause_groups(rows)
    command = shlex.split(group.action)
    assert command[:3] == ["sluice", "reactivate", "--why"]
    assert command[4:] == ["--stagger", "10s"]
    assert [has_cause(each, command[3]) for each in rows] == [True, True]
    assert has_cause(rows[0], "CAN'T OPEN")
    assert has_cause(rows[0], "it...open")
    assert not has_cause(rows[0], "exit 4")


def test_the_whole_text_of_a_group_selects_no_other_group() -> None:
    rows = [row("a", "exit 1"), row("b", "readiness probe failed: exit 1"), row("c", "exit 137")]
    assert [each.name for each in with_cause(rows, "exit 1")] == ["a"]
    assert [each.name for each in with_cause(rows[1:], "exit 1")] == ["b", "c"]


def test_the_command_names_the_namespaces_of_the_group() -> None:
    here, there = row("a", "exit 3"), row("b", "exit 3", namespace="team")
    scopes = [cause_groups(rows)[0].action.partition(" --why")[0] for rows in ([here], [there], [here, there])]
    assert scopes == ["sluice reactivate", "sluice reactivate -n team", "sluice reactivate -A"]


def test_the_short_command_has_the_beginning_of_a_long_cause() -> None:
    long = row("a", "exit 3: FileNotFoundError: No such file or directory: /data/some/long/path/x.csv")
    short = "exit 3: FileNotFoundError: No such file or directory:"
    assert short_action(cause_groups([long])) == f"sluice reactivate --why '{short}' --stagger 10s"
    assert has_cause(long, short)


def test_the_short_command_has_all_of_a_cause_that_begins_as_another() -> None:
    rows = [row(name, f"exit 3: FileNotFoundError: No such file or directory: /data/some/path/{name}") for name in "ab"]
    groups = cause_groups(rows)
    assert short_action(groups) == groups[0].action


def test_a_group_whose_program_does_not_exist_is_not_to_be_reactivated() -> None:
    missing = [row(name, "no such program: /x") for name in "abc"]
    assert (
        short_action(cause_groups([*missing, row("d", "exit 1")])) == "sluice reactivate --why 'exit 1' --stagger 10s"
    )
    assert short_action(cause_groups(missing)) == ""


def test_a_shell_gets_the_text_as_one_argument() -> None:
    for cause in ("exit 3: it's $HOME", 'exit 3: `x` "y"', "exit 3: it's"):
        assert cause in shlex.split(cause_groups([row("a", cause)])[0].action)
