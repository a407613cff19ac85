"""Completion in the shells themselves, with names of a running cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from queue_manager.api.api_resources import WORKLOAD_PRIORITY_CLASSES
from tests.local.cli.conftest import User
from tests.local.cli.terminal import Terminal

BLANK = "\\ "  # as a shell completes it
INTERACTIVE = {
    "bash": (("bash", "--norc", "--noprofile", "-i"), "PS1=; source <(sluice completion bash)"),
    "zsh": (("zsh", "-f", "-i"), "PS1=; autoload -Uz compinit; compinit -u -D; source <(sluice completion zsh)"),
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Where the shell finds `sluice`."""
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # a shell completes the same for each server
@pytest.mark.parametrize("shell", INTERACTIVE)
async def test_tab_completes_commands_options_and_names(
    shell: str, user: Callable[..., User], env: dict[str, str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: make test-tools")
    me = user()
    cause = await with_a_cause_and_a_class(me)
    command, setup = INTERACTIVE[shell]
    terminal = Terminal(*command, env={**env, "KUBECONFIG": str(me.up.kubeconfig)})
    try:
        terminal.type(f"{setup}; echo set''up\n")
        await terminal.until_shows("setup")
        for keys, completed in (
            ("sluice reac\t", "sluice reactivate "),
            ("tr\t", "sluice reactivate training "),
            ("\x15sluice ps --all-n\t", "sluice ps --all-namespaces "),
            ("--sta\t", "--all-namespaces --state "),
            ("Fai\t", "--state Failed "),
            ("\x15sluice ps --state Failed,Runn\t", "--state Failed,Running "),
            ("-q user-q\t", "-q user-queue "),
            ("\x15sluice explain --reason ExceedsM\t", "--reason ExceedsMaxQuota "),
            ("\x15sluice run --priority urg\t", "--priority urgent "),
            ("\x15sluice reactivate --why by\t", f"--why {cause.replace(' ', BLANK)} "),
        ):
            terminal.type(keys)
            await terminal.until_shows(completed)
    finally:
        terminal.close()


async def with_a_cause_and_a_class(me: User) -> str:
    """Create the Job `training`, deactivated, and the WorkloadPriorityClass `urgent`; return the cause: `by USER`."""
    me.submit("training")
    me.says("deactivate", "training")
    async with me.up.client() as client:
        await client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "urgent"}, "value": 9})
    (row,) = me.json("deactivated")
    return str(row["cause"])


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)  # a shell completes the same for each server
async def test_fish_completes_with_descriptions(user: Callable[..., User], env: dict[str, str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed: make test-tools")
    me = user()
    cause = await with_a_cause_and_a_class(me)
    asked = (
        "sluice reac",
        "sluice show tr",
        "sluice ps -q user-q",
        "sluice ps --state Failed,Pe",
        "sluice explain --reason ExceedsM",
        "sluice run --priority urg",
        "sluice reactivate --why by",
        "sluice wait training --for adm",
        "sluice man reac",
    )
    code = "sluice completion fish | source\n" + "".join(f'complete -C "{line}"\n' for line in asked)
    done = subprocess.run(
        ["fish", "--no-config", "-c", code],
        env={**os.environ, **env, "KUBECONFIG": str(me.up.kubeconfig)},
        text=True,
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == [
        "reactivate\trequeue deactivated Jobs, with a new budget of retries",
        "training",
        "user-queue",
        "Failed,Pending",
        "ExceedsMaxQuota",
        "urgent",
        cause,
        "admitted\tall are unsuspended",
        "reactivate\trequeue deactivated Jobs, with a new budget of retries",
    ]


def test_a_cluster_that_does_not_answer_completes_nothing_soon(env: dict[str, str], tmp_path: Path) -> None:
    """192.0.2.1 is an address of documentation (RFC 5737), where nothing answers."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://192.0.2.1'}}]\nusers: [{name: u, user: {}}]\n"
    )
    line = "sluice show "
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer"),
    }
    done = subprocess.run(
        ["sluice"],
        env={**os.environ, **env, **asked, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "answer").read_bytes() == b""
