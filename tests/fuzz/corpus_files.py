"""Where inputs are saved, and how one of them is repeated."""

from __future__ import annotations

import hashlib
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path("build/fuzz")  # inputs that reach new code, of the runs on this machine
FAILURES = ("crash-", "oom-", "timeout-")  # begin the names of inputs that failed; the last two are libFuzzer's


def inputs(target: str) -> list[Path]:
    """The saved inputs of a target, in a fixed order."""
    return sorted(path for path in (CORPUS / target).glob("*") if path.is_file())


def failures(target: str) -> list[Path]:
    """Those of them that failed once."""
    return [file for file in inputs(target) if file.name.startswith(FAILURES)]


def save_failure(target: str, data: bytes) -> Path:
    """Save an input that failed, so that the tests repeat it."""
    file = CORPUS / target / f"{FAILURES[0]}{hashlib.sha1(data).hexdigest()[:12]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def repeat_command(target: str, file: Path) -> str:
    """A command that decodes one input and prints what happens."""
    return f"python -m tests.fuzz.repeat {target} {file}"
