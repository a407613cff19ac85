"""Run all benchmarks, or those named: `python -m tests.benchmarks [reflector ...]`. They print, they never assert."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from tests.benchmarks.bench_decisions import anchor


def main(wanted: list[str]) -> int:
    found = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    unknown = [name for name in wanted if name not in found]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(found)}", file=sys.stderr)
        return 2
    print(interpreter(), flush=True)
    for name in wanted or found:
        print(f"\n== {name} ==", flush=True)
        import_module(f"tests.benchmarks.bench_{name}").main()
    return 0


def interpreter() -> str:
    """The Python build and its speed, which is part of every figure: builds differ by a factor of up to 1.8."""
    loop = min(anchor() for _ in range(10)) * 1e3
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores; a loop over 100,000 integers takes {loop:.1f} ms"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
