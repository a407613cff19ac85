"""What the first process of a PID namespace (a container without an init of its own) owes to the others in it.

Theory. To the first process go all those whose parents have ended: the writers of logs, and daemons that pods leave
behind. Nobody else can reap them, and one that is not reaped holds its pid for ever. The kernel also keeps from it
every signal that it does not handle, so that a second Ctrl-C would not end it. So the first process becomes an init:
a child of it goes on with the program, while it reaps what ends, passes signals on, and ends as the child does.

What the terminal sends goes to the whole process group, the child in it; only what processes send is passed on.
"""

from __future__ import annotations

import os
import signal

_PASSED_ON = {s for s in signal.valid_signals() if s < 32 and s not in (signal.SIGKILL, signal.SIGSTOP)}


def leave() -> None:
    """Return in a process that is not the first one of its namespace. Called before there is any thread."""
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child:
        os._exit(_init(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _init(child: int) -> int:
    """Reap and pass on until the child has ended; its exit code, 128 + the signal that ended it as shells say it."""
    while True:
        heard = signal.sigwaitinfo(_PASSED_ON)
        if heard.si_signo != signal.SIGCHLD:
            if heard.si_code <= 0:  # a process sent it
                os.kill(child, heard.si_signo)
            continue
        pid, status = os.waitpid(-1, os.WNOHANG)
        while pid not in (0, child):
            pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
