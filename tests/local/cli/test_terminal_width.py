"""What commands print on a terminal of 80 columns: no line is longer, and none ends in spaces."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len

from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOAD_PRIORITY_CLASSES,
)
from queue_manager.cli.arguments import parser
from tests.local.cli.conftest import JOB, User
from tests.local.cli.terminal import Terminal
from tests.local.cluster.conftest import EMBEDDED, SLUICE, Up, sluice
from tests.waiting import until

COLUMNS = 80
LONG = "a-job-with-a-rather-long-name-for-eighty-columns"
LONG_ERROR = "FileNotFoundError: No such file or directory: /data/some/folder/of/the/experiment/x.csv"
FAILS = f'[sh, -c, "echo {LONG_ERROR} >&2; exit 3"]'
CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {origin: here}
waitForPodsReady:
  requeuingStrategy: {timestamp: Sometimes, backoffLimitCount: -1, backoffBaseSeconds: many}
"""
STORED = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmultiKueue: {origin: here}\n"


async def printed(*arguments: str, env: dict[str, str]) -> Terminal:
    """The terminal on which a command has ended."""
    terminal = Terminal(*SLUICE, *arguments, env=env)
    try:
        await terminal.until_ended()
        assert "Traceback" not in terminal.text
        return terminal
    finally:
        terminal.close()


async def shown(*arguments: str, env: dict[str, str]) -> list[str]:
    """The lines that a command prints on a terminal."""
    return lines_of(await printed(*arguments, env=env))


def lines_of(terminal: Terminal) -> list[str]:
    return terminal.text.replace("\r\n", "\n").rstrip("\n").split("\n")


def unfit(lines: list[str]) -> list[str]:
    """Lines that are too wide, or end in spaces. One long path alone is not broken; how long paths are depends on where
    the tests run.
    """
    return [line for line in lines if line != line.rstrip() or (cell_len(line) > COLUMNS and " " in line.lstrip("# "))]


async def wrongly_printed(commands: list[list[str]], env: dict[str, str]) -> dict[str, list[str]]:
    """The lines that do not fit, by command."""
    found = {" ".join(command): unfit(await shown(*command, env=env)) for command in commands}
    return {command: lines for command, lines in found.items() if lines}


TEAM = "team-with-a-rather-long-name-too"
QUEUE = "queue-of-the-team-with-a-rather-long-name"
TABLES = [  # each command that prints a table, in a state in which its table has rows
    "ps -A",
    "ps -A -o wide",
    "ps --all",
    "queues",
    "queues -o wide",
    "deactivated -A",
    "deactivated -A -o wide",
    "deactivated -A --by cause",
    "history",
    "history -o wide",
    f"history {LONG} -n {TEAM}",
    f"history {LONG} -n {TEAM} -o wide",
    "report",
    "report --by queue,user,flavor,namespace",
    "report -o wide",
    f"show {LONG} -n {TEAM}",
    f"show {LONG} -n {TEAM} -o wide",
    f"explain {LONG}-2 -n {TEAM}",
    f"explain {LONG}-2 -n {TEAM} -o wide",
    f"wait {LONG} -n {TEAM}",
    f"wait {LONG}-2 -n {TEAM} --timeout 100ms",
    f"submit -n {TEAM} -f {{jobs}}",
    f"submit -n {TEAM} -f {{jobs}} --replace --wait",
    f"import -n {TEAM} --to-queue {QUEUE}",
    "adopt",
    "upgrade --check",
]
WITHOUT_TABLE = {  # with -o: they print sentences, see the tests below
    *("run", "cancel", "deactivate", "reactivate", "hold", "drain", "release", "doctor", "uninstall", "demo"),
    "check-config",
    "crds",  # its --output is a folder
}


def test_each_command_with_a_table_is_run_on_a_terminal() -> None:
    [commands] = [action for action in parser()._actions if isinstance(action.choices, dict)]
    with_rows = {
        name
        for name, command in (commands.choices or {}).items()
        if any("--output" in action.option_strings for action in command._actions)
    }
    assert with_rows - {line.split()[0] for line in TABLES} - WITHOUT_TABLE == set()


@EMBEDDED
async def test_each_table_fits_on_a_terminal_with_its_colours(user: Callable[..., User], tmp_path: Path) -> None:
    me, jobs = user("3s"), tmp_path / "jobs.yaml"
    template = JOB.replace("user-queue", QUEUE)
    quick = template.format(name=f"{LONG}-3", command=FAILS, spec="backoffLimit: 0", cpu="100m")
    jobs.write_text(quick)
    async with me.up.client() as client:
        await client.create(NAMESPACES, "", {"metadata": {"name": TEAM}})
        spec = {"clusterQueue": "cluster-queue"}
        await client.create(LOCAL_QUEUES, TEAM, {"metadata": {"name": QUEUE}, "spec": spec})
        unqueued = yaml.safe_load(quick.replace(f"{LONG}-3", f"{LONG}-4"))
        del unqueued["metadata"]["labels"]
        container = {"name": "main", "image": "local", "command": ["sleep", "600"]}
        unqueued["spec"].update(suspend=False, template={"spec": {"restartPolicy": "Never", "containers": [container]}})
        await client.create(JOBS, TEAM, unqueued)
        for name, cpu in ((LONG, "100m"), (f"{LONG}-2", "64")):
            text = template.format(name=name, command=FAILS, spec="backoffLimit: 6", cpu=cpu)
            me.run("submit", "-n", TEAM, "-f", "-", stdin=text)

    await until(lambda: len(me.json("deactivated", "-n", TEAM)) == 1, "one is deactivated")
    is_history_known = isinstance(me.up, Up)  # that of another cluster is read from its database
    env = {"KUBECONFIG": str(me.up.kubeconfig)}
    wrong: dict[str, object] = {}
    for line in TABLES:
        if line.startswith(("history", "report")) and not is_history_known:
            continue
        command = line.format(jobs=jobs).split()
        terminal = await printed(*command, env=env)
        if bad := unfit(lines_of(terminal)):
            wrong[line] = bad
        elif len(lines_of(terminal)) < 2 or "\x1b[" not in terminal.raw:
            wrong[line] = ("no table, or no colours", lines_of(terminal))
    assert wrong == {}


async def test_the_demonstration_fits_on_a_terminal(tmp_path: Path) -> None:
    """It draws the queue again and again over what it has drawn, padded."""
    terminal = await printed("demo", env={"TMPDIR": str(tmp_path)})
    assert [line for line in terminal.text.splitlines() if cell_len(line.rstrip()) > COLUMNS] == []
    assert "\x1b[" in terminal.raw


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # a terminal shows the same of each server
async def test_sentences_about_jobs_and_queues_fit_on_a_terminal(user: Callable[..., User]) -> None:
    me = user("3s")
    me.submit("fails", command=FAILS)
    me.submit(LONG, cpu="1500m")
    await me.until_state("fails", "Deactivated")
    await me.until_state(LONG, "Running")
    me.submit("waits", cpu="1")
    for name in ("huge", f"{LONG}-2"):
        me.run("submit", "-f", "-", stdin=JOB.format(name=name, command="[sleep, '1']", spec="backoffLimit: 6", cpu=64))
        await me.until_state(name, "Pending")
    async with me.up.client() as client:
        spec = {"clusterQueue": "cluster-queue"}
        await client.create(LOCAL_QUEUES, "default", {"metadata": {"name": "another-queue-of-mine"}, "spec": spec})
    jobs = (LONG, "fails", "waits", "huge", f"{LONG}-2")
    commands = [
        ["deactivated", "--by", "cause"],
        ["deactivated"],
        ["ps"],
        ["queues"],
        *([verb, job] for verb in ("show", "explain") for job in jobs),
        ["logs", "huge"],
        ["run", "true"],
        ["run", "-q", "no-such-queue-in-this-namespace", "true"],
        ["reactivate", "--why", "no cause of any Job contains these words, whatever happens", "--dry-run"],
        *([verb, queue] for queue in ("user-queue", "cq/cluster-queue") for verb in ("hold", "drain", "release")),
        ["deactivate", LONG],
        ["deactivate", LONG],
        ["reactivate", LONG],
        ["cancel", "huge", "waits"],
        ["uninstall"],
    ]
    assert await wrongly_printed(commands, {"KUBECONFIG": str(me.up.kubeconfig)}) == {}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # a terminal shows the same of each server
async def test_show_of_a_job_that_failed_fits_forty_lines(user: Callable[..., User]) -> None:
    me = user()
    me.submit("fails", command=FAILS, spec="backoffLimit: 0")
    record = await me.until_state("fails", "Failed")
    lines = await shown("show", "fails", env={"KUBECONFIG": str(me.up.kubeconfig)})
    assert len(lines) <= 40
    first = lines.index("HISTORY") + 2
    steps = lines[first : first + len(record["history"])]
    assert [line.split()[0] for line in steps] == [step["at"] for step in record["history"]]
    everything = await shown("show", "fails", "-o", "wide", env={"KUBECONFIG": str(me.up.kubeconfig)})
    assert "SuccessfulCreate" in "".join(lines)
    for event in record["events"]:
        assert event["reason"] in "".join(everything)


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # a terminal shows the same of each server
async def test_show_says_who_needed_the_quota_of_a_victim_and_its_place(user: Callable[..., User]) -> None:
    me = user()
    async with me.up.client() as client:
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 100})
        policy = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        await client.patch(CLUSTER_QUEUES, "", "cluster-queue", policy)
    me.submit("victim", cpu="2")
    await me.until_state("victim", "Running")
    needs = JOB.format(name="needs", command="[sleep, '600']", spec="backoffLimit: 6", cpu=2)
    me.says("submit", "-f", "-", stdin=needs.replace("labels: {", "labels: {kueue.x-k8s.io/priority-class: high, "))
    await me.until_state("needs", "Running")
    await me.until_state("victim", "Pending")
    lines = await shown("show", "victim", env={"KUBECONFIG": str(me.up.kubeconfig)})
    page = " ".join(" ".join(lines).split())
    assert "state Pending preempted for priority 100 of ClusterQueue cluster-queue; needs 2 more cpu" in page
    assert "position 1 of 1 in ClusterQueue cluster-queue" in page
    evicted = next(number for number, line in enumerate(lines) if line.endswith("●  Evicted"))
    assert lines[evicted + 1] == "  preempted for priority 100 of ClusterQueue cluster-queue"
    assert "JobUID" not in page


async def test_mistakes_fit_on_a_terminal(tmp_path: Path) -> None:
    wrong, ignored, env = tmp_path / "wrong.yaml", tmp_path / "ignored.yaml", dict[str, str]()
    wrong.write_text(CONFIG)
    ignored.write_text(STORED)
    commands = [
        ["check-config", str(wrong)],
        ["check-config", str(ignored)],
        ["explain", "--reason", "NoSuchWord"],
        ["no-such-command"],
        ["ps", "--since", "no time"],
        ["explain", "--reason", "PodsReadyTimeout"],
        ["ps", "--kubeconfig", str(tmp_path / "kubeconfig")],
    ]
    assert await wrongly_printed(commands, env) == {}


async def test_a_cluster_in_the_background_is_announced_in_lines_that_fit(tmp_path: Path) -> None:
    data, env = str(tmp_path / "d"), {"HOME": os.environ["HOME"]}
    flags = ["--data-dir", data]
    try:
        assert unfit(await shown("up", "--detach", *flags, env=env)) == []
        assert unfit(await shown("up", "--detach", *flags, env=env)) == []
    finally:
        ended = await shown("down", *flags, env=env)
    assert unfit(ended) == []
    assert unfit(await shown("down", *flags, env=env)) == []


async def test_a_cluster_in_the_foreground_says_what_it_does_in_lines_that_fit() -> None:
    """Its path is short, since the lines have commands with it, which are not broken."""
    with tempfile.TemporaryDirectory(prefix="sluice-", dir="/tmp") as folder:
        terminal = Terminal(*SLUICE, "up", "--data-dir", folder, env={})
        try:
            await terminal.until_shows("Ctrl-C stops the cluster")
            terminal.type("\x03")
            await terminal.until_ended()
            assert unfit(lines_of(terminal)) == []
        finally:
            terminal.close()


def test_a_pipe_gets_a_sentence_in_one_line(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(CONFIG)
    printed = sluice("check-config", str(wrong)).stderr.splitlines()
    assert [line for line in printed if cell_len(line) > COLUMNS]
    assert [line for line in printed if line.startswith(" ")] == []
