"""Build hook of hatchling: a wheel or sdist that is built from a checkout names its commit in queue_manager/COMMIT."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"  # runs from the checkout, which names its commit itself


class CommitHook(BuildHookInterface):
    """Adds that file. Without git or a checkout it adds none: an sdist has the file of its own build."""

    folder = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit to a temporary file that becomes part of what is built."""
        commit = "" if version == EDITABLE else _commit(Path(self.root))
        if commit:
            self.folder = tempfile.mkdtemp(prefix="sluice-build-")
            file = Path(self.folder, "COMMIT")
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = "queue_manager/COMMIT"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary file."""
        if self.folder:
            shutil.rmtree(self.folder)


def _commit(root: Path) -> str:
    repository = root / ".git"
    if not repository.exists():  # git would find a repository around the folder
        return ""
    command = ["git", "--git-dir", str(repository), "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:  # there is no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
