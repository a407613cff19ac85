"""Records which Jobs a command has created, for its message after Ctrl-C. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from job_controller.model import Key


@dataclass(slots=True)
class Creations:
    """The Jobs that one command has created, for its message if it is interrupted.

    `removing`: the old Job that --replace deletes now. `requested`: the Job whose creation was sent and is not
    answered yet; it may have been created.
    """

    created: list[Key] = field(default_factory=list)
    removing: Key | None = None
    requested: Key | None = None
    complete: bool = False  # all Jobs are created, and what the command does from now on reports its own interruption

    def interrupted(self) -> str:
        """Return the message after Ctrl-C: which Jobs were created, and which may have been; "" if all were created."""
        if self.complete:
            return ""
        if self.removing is not None:
            last = [f"the old Job {self.removing} is being deleted, and no new one was created"]
        elif self.requested is not None:
            last = [f"Job {self.requested} may have been created, which `sluice show {self.requested}` says"]
        else:
            last = ["no other was created"] if self.created else ["nothing was created"]
        names = " ".join(map(str, self.created))
        before = [f"created, and still there: {names} (to delete them: sluice cancel {names})"] if self.created else []
        return f"interrupted: {'; '.join([*before, *last])}"
