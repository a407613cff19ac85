"""Reduce the corpus to few and small inputs: `python -m tests.fuzz.minimize [--from DIRECTORY] [TARGET ...]`.

Of the corpus, of build/fuzz and of DIRECTORY (`tests.fuzz.seeds`), the smallest inputs are kept that together execute
the same lines of the product, and every input that once failed. Needs no atheris.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz import targets
from tests.fuzz.corpus_files import CORPUS, FAILURES, FOUND
from tests.fuzz.target import Target, check

PRODUCT = tuple(str(Path(__file__).parents[2] / name) for name in ("job_controller", "queue_manager"))
MAX_KEPT = 60  # inputs of a target

Line = tuple[CodeType | str, int]


def lines_of(target: Target, data: bytes) -> frozenset[Line]:
    """The lines of the product that an input executes; and for decoders in C, the outcome."""
    found: set[Line] = set()

    def in_code(frame: FrameType, event: str, _: Any) -> Any:
        found.add((frame.f_code, frame.f_lineno))
        return in_code

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return in_code(frame, event, argument) if frame.f_code.co_filename.startswith(PRODUCT) else None

    head = data.partition(b"\n")[0].decode("latin-1") if target.heads else ""
    sys.settrace(trace)
    try:
        accepted = check(target, data)
    finally:
        sys.settrace(None)
    return frozenset(found) | {(head if head in target.heads else "", int(accepted))}


def chosen(covered: Iterable[tuple[bytes, frozenset[Line]]]) -> list[bytes]:
    """Inputs that together cover every line: always the one next that adds most lines per byte."""
    left, kept, known = dict(covered), [], set[Line]()
    while left and len(kept) < MAX_KEPT:
        best = max(left, key=lambda data: (len(left[data] - known) / (len(data) + 64), -len(data), data))
        if not left[best] - known:
            break
        known |= left.pop(best)
        kept.append(best)
    return kept


def minimize(name: str, folders: Sequence[Path]) -> int:
    """Replace the corpus of a target; return how many inputs it has."""
    target, saved = targets.load(name), CORPUS / name
    files = [file for folder in (saved, *folders) if (folder).is_dir() for file in folder.iterdir() if file.is_file()]
    contents = {file.read_bytes() for file in files if not file.name.startswith(FAILURES)}
    for data in contents:  # imports and caches, which belong to no input
        check(target, data)
    kept = chosen((data, lines_of(target, data)) for data in contents)
    saved.mkdir(parents=True, exist_ok=True)
    for file in saved.iterdir():
        if not file.name.startswith(FAILURES):
            file.unlink()
    for data in kept:
        (saved / hashlib.sha1(data).hexdigest()[:12]).write_bytes(data)
    return len(list(saved.iterdir()))


def main(arguments: Sequence[str]) -> int:
    """Minimize the corpus of the named targets, or of all."""
    seeds, names = (Path(arguments[1]), arguments[2:]) if arguments[:1] == ["--from"] else (None, arguments)
    for name in names or targets.NAMES:
        more = [seeds / name] if seeds is not None else []
        print(f"{name:20}{minimize(name, [FOUND / name, *more]):5} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
