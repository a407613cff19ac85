"""The command line with standard streams that are closed, full, or of a limited encoding."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_manager.cli import main, standard_streams
from queue_manager.cli.change_report import ChangeReport

PYTHON = shlex.quote(sys.executable)
CRDS = f"{PYTHON} -m queue_manager.cli.main crds"
# Prints characters that are not in ASCII, as `sluice up` and `sluice queues` do.
MARK = (
    "from queue_manager.cli import standard_streams, up; standard_streams.prepare(); "
    "up.print_step(chr(0x2714), 'store', 'x')"
)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)


def test_a_full_disk_is_a_message_without_traceback() -> None:
    done = shell(f"{CRDS} >/dev/full")
    assert (done.returncode, done.stderr) == (3, "sluice crds: [Errno 28] No space left on device\n")


def test_closed_streams_are_replaced_by_dev_null() -> None:
    done = shell(f"{CRDS} <&- >&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def unread() -> Iterator[int]:
    """The writing end of a pipe without a reader. With `| head -1` the reader might still exist."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("command", ["crds", "--help"])
def test_a_broken_pipe_ends_a_command_quietly_with_the_exit_code_of_sigpipe(command: str, unread: int) -> None:
    argv = [sys.executable, "-m", "queue_manager.cli.main", command]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(argv, stdout=unread, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=env)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_broken_pipe_stops_no_change_and_the_report_goes_to_stderr(
    form: str, unread: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", os.fdopen(os.dup(unread), "w"))
    report = ChangeReport(form, dry_run=False)
    report.add("Job", "default", "one", "reactivated", "requeued")
    report.add("Job", "default", "two", "refused", "it has ended")
    report.add("Job", "default", "three", "reactivated", "requeued")
    assert report.end("") == 2
    sys.stdout.close()  # raises if its buffer cannot be written
    assert capsys.readouterr().err.splitlines() == [
        "default/one reactivated: requeued",
        "default/two refused: it has ended",
        "default/three reactivated: requeued",
    ]


def test_a_broken_pipe_ends_a_dry_run(unread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = os.fdopen(os.dup(unread), "w")
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(BrokenPipeError):
        ChangeReport("table", dry_run=True).add("Job", "default", "one", "reactivated", "requeued")
    standard_streams.discard_output()
    out.close()


@pytest.mark.thorough
def test_characters_outside_of_the_encoding_are_question_marks() -> None:
    done = shell(f'PYTHONIOENCODING=latin-1 {PYTHON} -c "{MARK}"')
    assert (done.stdout, done.stderr) == ("? store        x\n", "")


@pytest.mark.thorough
def test_standard_input_is_read_as_utf_8() -> None:
    """As files are, whatever the terminal's encoding; invalid UTF-8 is reported in the C locale too."""
    for encoding in ("latin-1", "utf-8:surrogateescape"):
        command = f"PYTHONIOENCODING={encoding} {PYTHON} -m queue_manager.cli.main submit -f -"
        done = shell(f"printf 'a: \\377' | {command}")
        assert (done.returncode, done.stderr) == (4, "sluice submit: <stdin>: byte 3 is not UTF-8\n")


@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        ("submit -f", 'apiVersion: v1\nkind: "Job\\e[2J\\x9b2J"\n', 4),
        ("check-config", 'kind: Configuration\n"foo\\e[2J\\x9b2J": 1\n', 2),
        ("ps --kubeconfig", 'contexts: []\ncurrent-context: "a\\e[2J\\x9b2J"\n', 3),
    ],
)
def test_control_characters_of_a_refused_file_are_escaped(
    command: str, text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(text)
    assert main.main([*command.split(), str(tmp_path / "file")]) == code
    said = capsys.readouterr().err
    assert str(tmp_path / "file") in said
    assert not set("\x1b\x9b") & set(said)


# The command, interrupted as soon as anything is read beyond the module that starts it, the exit codes and built-ins.
INTERRUPTED = """
import os, signal, sys
READ = ("__future__", "atexit", "gc", "", ".cli", ".cli.main", ".cli.exit_codes")
class Interrupt:
    def find_spec(self, name, *args):
        if name.removeprefix("queue_manager") not in READ:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from queue_manager.cli.main import main
sys.exit(main(["crds"]))
"""


def test_a_ctrl_c_before_the_command_is_read_ends_it_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "1001", "100000000000", "9" * 5000])
def test_too_many_nodes_are_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["up", f"--nodes={count}"])
    assert "is not a whole number from 1 to 1000" in capsys.readouterr().err
