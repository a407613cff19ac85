"""One supervisor process per container: it outlives the agent and records the container's exit code.

Theory. The agent may be killed at any moment. If containers were its children, no process would wait for them then and
their exit codes would be lost. So each container is the foreground child of a `/bin/sh` in a session of its own. The
shell

  1. writes its pid, so that a new agent finds it;
  2. runs the command and waits. Signals for the container also reach the shell, which is in the same process group; it
     catches them and keeps waiting (an ignored signal would be ignored by the container, too). A SIGTERM that comes
     before the command has been started ends the container instead. A shell may lose a signal while it forks, so the
     sender of SIGTERM creates the file `.end` before, and the child, after it has restored the default action of
     SIGTERM, checks for that file. The child enters the cgroup of the container, if it has one; the shell stays
     outside and survives an OOM kill;
  3. writes the CPU time of its descendants, then the exit code, retrying while the disk is full. The mtime of that file
     is the finish time, which saves a `date` process;
  4. kills its process group and with it itself: background children end with their container, as they would
     with a PID namespace, even if no agent is alive.

The output of the container goes through two pipes to the process that appends it to the log (`output_keeper`): a
container that reopens its output (`echo ... >/dev/stderr`) would truncate a file. When the last writer has closed both
pipes, that process creates the file `.eof`. A container counts as ended when that file exists, and thus its whole log,
or after LINGER_SECONDS, because a child that left the session may hold a pipe. On a full disk the container blocks.

Only SIGKILL sent to the group ends the shell without an exit code; if neither a process nor an exit code exists, the
container was killed (137).

A pid alone does not identify a process, because pids are reused. The command line of the supervisor contains the path
of its files, which is unique to the start of the container. It is compared after the pidfd has been opened, so that
later signals go to the process that was identified. Without pidfds (not Linux) processes are polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from queue_manager.engine.file_descriptors import INHERITED_LIMIT
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import RunFiles
from queue_manager.local.agent.proc_stat import ZOMBIE, process_stat
from queue_manager.local.agent.resource_usage import Usage, of_child, own_peak
from queue_manager.local.agent.session_process import start_session

_DESCRIPTORS = "unlimited" if INHERITED_LIMIT == resource.RLIM_INFINITY else INHERITED_LIMIT
# Prefixed variable names: a variable that the container inherits under the same name would be changed.
_SCRIPT = (
    f"ulimit -S -n {_DESCRIPTORS}\n"
    + """\
trap : HUP INT QUIT USR1 USR2 PIPE ALRM
_sluice_end=; trap _sluice_end=1 TERM
ulimit -c 0; umask 022
_sluice_run=$1 _sluice_cgroup=$2; cd "$3" || exit; shift 3; unset OLDPWD
echo $$ >>"$_sluice_run.pid"
if [ "$_sluice_end" ]; then (exit 143); else (
  trap - TERM; [ -e "$_sluice_run.end" ] && exit 143
  [ -z "$_sluice_cgroup" ] || echo 0 >"$_sluice_cgroup/cgroup.procs" || exit 128
  exec "$@" 2>&3 3>&-
); fi
_sluice_code=$? PATH=/bin:/usr/bin
times >"$_sluice_run.times"
until echo "$_sluice_code" >"$_sluice_run.exit"; do [ -d "${_sluice_run%/*}" ] || break; sleep 1; done
kill -KILL 0
"""
)
_POLL_SECONDS = 0.1
NAME = "sluice-container"  # $0 of the shell
ENV = "/usr/bin/env"
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOG_POLL_SECONDS = 0.005
EXECUTION_SECONDS = 1.0  # at most, between the return of posix_spawn and the execution of the program
LINGER_SECONDS = 1.0  # from the end of a container to that of its log, at most
KILLED = 128 + signal.SIGKILL


class Process:
    """A running supervisor. `on_exit` is called once, from the event loop, when it has ended and its log is
    complete.
    """

    def __init__(self, run: RunFiles, pid: int, pidfd: int | None, starter_peak: int = 0) -> None:
        """`starter_peak`: the peak memory of this process just after it started the supervisor, in bytes."""
        self.pid = pid
        self.usage = Usage()  # of the ended container; unknown if the supervisor is not a child of this process
        self._starter_peak = starter_peak
        self._run = run
        self._pidfd = pidfd
        self._gone = False  # whether the supervisor has ended; its log may still be written
        self.ended = False

    def watch(self, on_exit: Callable[[], None]) -> None:
        """Call `on_exit` from the running event loop as soon as the supervisor has ended."""
        loop = asyncio.get_running_loop()
        if self._pidfd is not None:
            loop.add_reader(self._pidfd, self._end, on_exit)
        else:
            loop.call_later(_POLL_SECONDS, self._poll, on_exit)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group, unless the supervisor has ended."""
        if not self._gone and not self._has_ended():
            if number == signal.SIGTERM:
                with contextlib.suppress(
                    OSError
                ):  # full disk: only a container that is just starting could miss the signal
                    self._run.end.touch(exist_ok=False)  # its mtime is the time of the first request
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def release(self) -> None:
        """Stop watching; the process keeps running."""
        if self._pidfd is not None:
            with contextlib.suppress(RuntimeError):  # no running loop, so the pidfd is not watched any more
                asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _has_ended(self) -> bool:
        """Whether the supervisor has ended. A zombie counts as running: its pid and group are not reused yet."""
        if self._pidfd is None:
            return not self._reap_or_exists()
        try:
            signal.pidfd_send_signal(self._pidfd, 0)
        except ProcessLookupError:
            return True
        return False

    def _end(self, on_exit: Callable[[], None]) -> None:
        self.release()
        self._gone = True  # set before the pid is reaped and can be reused
        self._reap_or_exists()
        self._await_log(on_exit, asyncio.get_running_loop().time() + LINGER_SECONDS)

    def _await_log(self, on_exit: Callable[[], None], deadline: float) -> None:
        loop = asyncio.get_running_loop()
        if os.path.exists(self._run.eof) or loop.time() >= deadline:  # Path.exists raises on a missing permission
            self.ended = True
            on_exit()
        else:
            loop.call_later(_LOG_POLL_SECONDS, self._await_log, on_exit, deadline)

    def _poll(self, on_exit: Callable[[], None]) -> None:
        if self._reap_or_exists():
            asyncio.get_running_loop().call_later(_POLL_SECONDS, self._poll, on_exit)
        else:
            self._end(on_exit)

    def _reap_or_exists(self) -> bool:
        """Reap the supervisor if it has ended, and keep the kernel's account. Returns whether it still exists."""
        exists, account = _reap(self.pid)
        if account is not None:
            self.usage = of_child(account, self._starter_peak)
        return exists


def keep_files_to_ourselves() -> None:
    """Close inherited file descriptors above 2 on exec, so that containers do not inherit them.

    Files that Python opens are not inheritable anyway.
    """
    for name in os.listdir("/dev/fd"):
        if name.isdecimal() and int(name) > 2:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.set_inheritable(int(name), False)


def spawn(
    run: RunFiles,
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    pipes: OutputPipes,
    cgroup: str = "",
) -> Process:
    """Start a container. `argv[0]` is an absolute path; the process gets exactly the environment given.

    `cgroup`: the directory of the cgroup that the container runs in; empty for that of the agent.

    Raises OSError when no process can be started.
    """
    with pipes.of(run) as ends:
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, ends.out, 1),
            (os.POSIX_SPAWN_DUP2, ends.err, 3),
            (
                os.POSIX_SPAWN_OPEN,
                2,
                os.devnull,
                os.O_WRONLY,
                0,
            ),  # messages of the shell itself are not the container's output
        ]
        # A shell may drop variables whose names are not its own, such as A-B.
        others = [f"{name}={value}" for name, value in environment.items() if not _SHELL_NAME.fullmatch(name)]
        program = [ENV, *others, *argv] if others and "=" not in argv[0] else argv
        command = ["/bin/sh", "-c", _SCRIPT, NAME, run.base, cgroup, directory, *program]
        pid = start_session(command, environment, files)
        starter_peak = own_peak()
    with open(run.pid, "a") as file:  # the shell writes it too, because either process may be killed first
        file.write(f"{pid}\n")
    return Process(run, pid, _open(pid), starter_peak)


def adopt(run: RunFiles) -> Process | None:
    """The supervisor that an earlier agent started, if it still runs."""
    known = run.read_pid()
    if known is None or run.read_exit() is not None:
        return None
    pid = known[0]
    pidfd = _open(pid)
    if pidfd is None and hasattr(os, "pidfd_open"):
        return None
    if run.base in _executed_command_line(pid):
        return Process(run, pid, pidfd)
    if pidfd is not None:
        os.close(pidfd)
    return None


def _executed_command_line(pid: int) -> Sequence[str]:
    """The arguments of a process that may just have been started: it has none until it executes its program."""
    end = time.monotonic() + EXECUTION_SECONDS
    while not (found := command_line(pid)) and _is_running(pid) and time.monotonic() < end:
        time.sleep(0.001)  # nothing reports that a process executes its program
    return found


def _is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie. Without /proc: False."""
    stat = process_stat(pid)
    return stat is not None and stat.state != ZOMBIE


def container_command(pid: int) -> Sequence[str]:
    """The command line of a process; for a supervisor, that of its container."""
    command = command_line(pid)
    return command[7:] if command[3:4] == [NAME] else command


def command_line(pid: int) -> Sequence[str]:
    """The arguments of a process; empty if it is gone or a zombie."""
    if os.path.exists("/proc/self/cmdline"):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                text = file.read().decode("utf-8", "replace")
                return text.split("\0") if text else []
        except (FileNotFoundError, ProcessLookupError):
            return []
    listed = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, ProcessLookupError):
        return None


def _reap(pid: int) -> tuple[bool, resource.struct_rusage | None]:
    """Reap the process if it is a child that has ended. Returns whether it still exists, and what a reaped one used."""
    try:
        reaped, _, account = os.wait4(pid, os.WNOHANG)
        if reaped == pid:
            return False, account
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False, None
    return True, None
