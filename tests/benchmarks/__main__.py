"""Run all benchmarks, or those named: `python -m tests.benchmarks [reflector ...]`. They print, they never assert."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from importlib import import_module
from pathlib import Path


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
    """An interpreter built without --enable-optimizations takes up to 1.8 times as long for the same loop."""
    optimised = "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))
    return (
        f"Python {platform.python_version()}, {'' if optimised else 'not '}an optimised build; {os.cpu_count()} cores"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
