"""`make fuzz`: every target for its share of the time, as many at once as there are processors.

    python -m tests.fuzz [SECONDS] [TARGET ...]      SECONDS in total (default: 120)

Inputs that reach new code go to build/fuzz, for the next run on this machine; an input that fails is saved in the
corpus, where the tests repeat it from then on.

With FUZZ_SEED in the environment, it decodes the corpus, and then inputs that follow from the corpus and the seed: the
same ones each time, as many as the time allows. With FUZZ_INPUTS too, so many per target, and SECONDS is not used.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fuzz import process, targets
from tests.fuzz.corpus_files import CORPUS, FOUND, failures, repeat_command

SECONDS = 120.0
INPUTS_SECONDS = 300.0  # for FUZZ_INPUTS, after which a process is stopped
LEAST_SECONDS = 2.0  # of a target
GRACE_SECONDS = 60.0  # beyond its share, after which a process is stopped
POLL_SECONDS = 0.1
MAX_SHOWN = 4000  # characters of the output of a process that failed
# Without `cov` for a decoder in C.
PROGRESS = re.compile(r"^#(\d+)\s+(\w+)\s+(?:cov: (\d+) ft: \d+ corp: (\d+)/)?", re.MULTILINE)
HEADER = f"{'target':20}{'inputs':>9}{'branches':>10}{'new':>6}{'corpus':>8}   slowest input"


@dataclass(frozen=True, slots=True)
class Run:
    """A process that has ended."""

    target: str
    status: int
    output: str

    @property
    def failed(self) -> bool:
        return self.status != 0

    def row(self) -> str:
        """Inputs executed, branches reached, how many of them are new, inputs kept, and the slowest input."""
        progress = PROGRESS.findall(self.output) or [("0", "", "", "")]
        first = next((found for found in progress if found[1] == "INITED"), progress[0])
        inputs, _, branches, kept = (found or "0" for found in progress[-1])
        slowest = [line for line in self.output.splitlines() if line.startswith(process.SLOWEST)]
        new = int(branches) - int(first[2] or 0)
        longest = slowest[-1].removeprefix(process.SLOWEST) if slowest else "-"
        return f"{self.target:20}{inputs:>9}{branches:>10}{new:>6}{kept:>8}   {longest}"


class Queue:
    """Runs targets, a few at a time. `fuzz`: what the process of one does; `limit`: seconds until it is stopped."""

    def __init__(self, names: Sequence[str], fuzz: Callable[[str], None], limit: float) -> None:
        self._waiting, self._fuzz, self._limit = list(names), fuzz, limit
        self._running: dict[int, tuple[str, float]] = {}  # by process: its target, and the time to stop it

    def runs(self, at_once: int) -> Iterable[Run]:
        """Each run as it ends."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < at_once:
                self._start(self._waiting.pop(0))
            for child, (name, until) in list(self._running.items()):
                if time.monotonic() > until:
                    process.stop(child)
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    del self._running[child]
                    yield Run(name, status, _log(name).read_text(errors="replace"))
            time.sleep(POLL_SECONDS)  # os has no wait for a child with a time limit

    def _start(self, name: str) -> None:
        child = process.start(partial(self._fuzz, name), _log(name))
        self._running[child] = name, time.monotonic() + self._limit


def _search(share: float, name: str) -> None:
    found, saved = FOUND / name, CORPUS / name
    for folder in (found, saved):
        folder.mkdir(parents=True, exist_ok=True)
    process.search(name, share, ["-print_final_stats=1", f"-artifact_prefix={saved}/", str(found), str(saved)])


def _log(name: str) -> Path:
    return FOUND / f"{name}.log"


def main(arguments: Sequence[str]) -> int:
    """Fuzz; 1 if an input has failed."""
    seconds, names = float(arguments[0]) if arguments else SECONDS, arguments[1:] or targets.NAMES
    seed = os.environ.get("FUZZ_SEED", "")
    if not seed and not process.is_available():
        print("make fuzz needs atheris, which has packages for Linux on x86-64 only")
        return 2
    at_once = os.cpu_count() or 1
    before = {file: _written(file) for name in names for file in failures(name)}
    queue = _of_seed(int(seed), seconds, names, at_once) if seed else _of_time(seconds, names, at_once)
    failed = [run for run in queue.runs(at_once) if _shown(run).failed]
    for run in failed:
        _report(run, before)
    return 1 if failed else 0


def _of_seed(seed: int, seconds: float, names: Sequence[str], at_once: int) -> Queue:
    given = os.environ.get("FUZZ_INPUTS", "")
    count, share = int(given) if given else None, _share(seconds, names, at_once, targets.import_all)
    what = f"{count} inputs" if count is not None else f"the corpus, and inputs for {share:.0f} s"
    print(f"FUZZ_SEED={seed}: {what} for each of {len(names)} targets\n{HEADER}", flush=True)
    limit = INPUTS_SECONDS if count is not None else share + GRACE_SECONDS
    return Queue(names, lambda name: process.repeat(name, seed, count, share), limit)


def _share(seconds: float, names: Sequence[str], at_once: int, prepare: Callable[[], None]) -> float:
    """Return the seconds of each target, after what all of them need."""
    began = time.monotonic()
    prepare()
    left = seconds - (time.monotonic() - began)
    return max(LEAST_SECONDS, left * min(at_once, len(names)) / len(names))


def _of_time(seconds: float, names: Sequence[str], at_once: int) -> Queue:
    share = _share(seconds, names, at_once, process.import_product)
    print(f"{share:.0f} s for each of {len(names)} targets\n{HEADER}", flush=True)
    return Queue(names, partial(_search, share), share + GRACE_SECONDS)


def _shown(run: Run) -> Run:
    print(run.row() + ("   FAILED" if run.failed else ""), flush=True)
    return run


def _report(run: Run, before: Mapping[Path, int]) -> None:
    """`before`: when the inputs that failed in earlier runs were written; one that fails again is written again."""
    print(f"\n--- {run.target} (status {run.status})\n{_cause(run.output)}")
    for file in (file for file in failures(run.target) if before.get(file) != _written(file)):
        print(f"saved: {file}\nrepeat: {repeat_command(run.target, file)}")
        print(f"in base64: {base64.b64encode(file.read_bytes()).decode()}")


def _written(file: Path) -> int:
    return file.stat().st_mtime_ns


def _cause(output: str) -> str:
    """The traceback in the output of a process, without what libFuzzer prints around it."""
    _, found, rest = output.partition("Uncaught Python exception: ===")
    return rest.partition("\nINFO:")[0].strip()[-MAX_SHOWN:] if found else output[-MAX_SHOWN:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
