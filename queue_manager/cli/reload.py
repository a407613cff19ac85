"""Reloads the configuration on SIGHUP: applies the file as a whole or not at all, and reports which in one line.

The kernel also sends SIGHUP when the terminal of a process is closed. In that case the process stops.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass

from queue_manager.configuration import ConfigurationError, KueueConfig, load
from queue_manager.configuration.reloading import changes, verdict

ReportReload = Callable[[bool, str], None]
"""Whether the configuration was applied, and the line."""


@dataclass(slots=True)
class Reloader:
    """`path`: the file given at the start, or None. `apply` applies a new configuration to the running controllers.

    `namespaces`: see `load`.
    """

    path: str | None
    current: KueueConfig
    apply: Callable[[KueueConfig], None]
    report: ReportReload
    namespaces: Collection[str] = ()

    def reload(self) -> None:
        """Read the file again and apply it, all or nothing; report which of both happened."""
        if self.path is None:
            self.report(False, "no configuration file was given at the start: nothing to reload")
            return
        try:
            new = load(self.path, self.namespaces)
        except ConfigurationError as error:
            reasons = "; ".join(map(str, error.problems))
            self.report(False, f"{self.path} not applied, the old configuration stays in use: {reasons}")
            return
        found = changes(self.current, new)
        if not found.refused:
            self.apply(new)
            self.current = new
        self.report(not found.refused, f"{self.path} reloaded, {verdict(found)}")

    def listen(self, stop: Callable[[], None]) -> None:
        """Install the handler of SIGHUP, which reloads, or calls `stop` if the terminal was closed."""
        had_terminal = has_terminal()

        def hung_up() -> None:
            if had_terminal and not has_terminal():
                stop()
            else:
                self.reload()

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)


def has_terminal() -> bool:
    """Whether the process has a controlling terminal that is open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
