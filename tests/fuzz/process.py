"""One target in a process that was forked for it.

`search` runs it under libFuzzer. atheris counts the branches of the product's code, which it instruments while it is
imported; an input that reaches a new one is kept. So nothing of the product may be imported before `import_product`,
which takes seconds: it is called once, and each target gets a fork.

`repeat` mutates the saved inputs only. Which inputs libFuzzer tries depends on the branches that it sees, and so on
times and caches; these depend on the seed alone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import NoReturn

from tests.fuzz.corpus_files import inputs, save_failure
from tests.fuzz.mutation import mutated, with_changed_bytes
from tests.fuzz.target import Target, check

try:
    import atheris
except ImportError:  # it has packages for Linux on x86-64 only
    atheris = None

PRODUCT = ["job_controller", "queue_manager"]
MAX_BYTES = 8192  # of an input
MUTATIONS = (1, 1, 2, 3)  # of a saved input, one after the other
# `target` limits the time of an input by the processor's; libFuzzer's limit counts the time of other processes too.
LIMITS = ["-timeout=300", "-rss_limit_mb=1500"]
SLOWEST = "slowest: "  # begins a line of the output; the last one counts


def is_available() -> bool:
    """Whether this machine has atheris."""
    return atheris is not None


def import_product() -> None:
    """Import what the targets need, instrumented."""
    with _silent(), atheris.instrument_imports(include=PRODUCT):
        from tests.fuzz import targets

        targets.import_all()


@contextmanager
def _silent() -> Iterator[None]:
    """Without the line that atheris writes for each module."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start(fuzz: Callable[[], None], output: Path) -> int:
    """Fork a process for `search` or `repeat`; return its id. It ends with another status than 0 if an input fails."""
    output.parent.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child:
        return child
    try:
        with output.open("wb") as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())
        fuzz()
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 3
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def stop(child: int) -> None:
    """End a process that has not ended by itself."""
    os.kill(child, signal.SIGKILL)


def repeat(name: str, seed: int, count: int | None, seconds: float) -> None:
    """Check the saved inputs, then those that follow from them and the seed: `count`, or as many as the time allows.

    With more time a run checks the inputs of a shorter one first.
    """
    from tests.fuzz import targets

    logging.disable(logging.WARNING)
    target, rng = targets.load(name), Random(seed)
    seeds, one = [file.read_bytes() for file in inputs(name)], _checked(name, target)
    for data in seeds:
        one(data)
    number, end = 0, time.monotonic() + seconds
    while number < count if count is not None else time.monotonic() < end:
        number += 1
        data = rng.choice(seeds)
        for _ in range(rng.choice(MUTATIONS)):
            data = mutated(target, data, seeds, MAX_BYTES, rng.getrandbits(32), partial(with_changed_bytes, rng))
        one(data)
    print(f"#{number} DONE", file=sys.stderr)


def search(name: str, seconds: float, options: list[str]) -> NoReturn:
    """Let libFuzzer look for inputs that reach new branches."""
    from tests.fuzz import targets

    logging.disable(logging.WARNING)
    with atheris.instrument_imports(include=PRODUCT):  # some modules are imported when they are first needed
        target = targets.load(name)
    seeds = [file.read_bytes() for file in inputs(name)]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return mutated(target, data, seeds, max_size, seed, atheris.Mutate)

    limits = [f"-max_len={MAX_BYTES}", f"-max_total_time={seconds:.0f}", *LIMITS]
    atheris.Setup([sys.argv[0], *limits, *options], _checked(name, target), custom_mutator=mutate)
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


def _checked(name: str, target: Target) -> Callable[[bytes], None]:
    """Checks an input, saves one that fails, and prints how long the slowest takes."""
    slowest = 0.0

    def one(data: bytes) -> None:
        nonlocal slowest
        before = time.process_time()
        try:
            check(target, data)
        except BaseException:
            save_failure(name, data)
            raise
        if (took := time.process_time() - before) > 1.1 * slowest:
            slowest = took
            print(f"{SLOWEST}{1000 * took:.1f} ms, {len(data)} bytes", file=sys.stderr, flush=True)

    return one
