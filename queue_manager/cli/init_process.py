"""Makes PID 1 of a PID namespace (a container without an init) act as an init process.

The kernel reparents orphans to PID 1, such as daemons that pods leave behind. Only PID 1 can reap them, and a zombie
keeps its PID. The kernel also discards every signal to PID 1 that it does not handle, so a second Ctrl-C would not end
the program. Therefore PID 1 forks: the child runs the program, while PID 1 reaps orphans, forwards signals, and exits
with the status of the child.

Signals from the terminal reach the whole process group, including the child. Only signals sent by processes are
forwarded.
"""

from __future__ import annotations

import os
import signal

_FORWARDED_SIGNALS = {s for s in signal.valid_signals() if s < 32 and s not in (signal.SIGKILL, signal.SIGSTOP)}


def fork_as_init() -> None:
    """Return in a process other than PID 1: this one, or a forked child. Must be called before any thread starts."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED_SIGNALS)
    child = os.fork()
    if child:
        os._exit(_init(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _init(child: int) -> int:
    """Reap and forward until the child exits; return its exit code, or 128 + signal as shells do."""
    while True:
        received = signal.sigwaitinfo(_FORWARDED_SIGNALS)
        if received.si_signo != signal.SIGCHLD:
            if received.si_code <= 0:  # a process sent it
                os.kill(child, received.si_signo)
            continue
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid not in (0, child):
            pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
