"""Run all benchmarks, or those named: `python -m tests.benchmarks [reflector ...]`. They print, they never assert.

`--help` lists the benchmarks with the first line of each one's docstring: what it measures.
"""

from __future__ import annotations

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path

from tests.benchmarks.interpreter import interpreter


def main(wanted: list[str]) -> int:
    found = descriptions()
    names = arguments(found).parse_args(wanted).names
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are:\n{listing(found)}", file=sys.stderr)
        return 2
    print(interpreter(), flush=True)
    for name in names or found:
        print(f"\n== {name} ==", flush=True)
        import_module(f"tests.benchmarks.bench_{name}").main()
    return 0


def descriptions() -> dict[str, str]:
    """What each benchmark measures, by its name: the first line of the module's docstring."""
    paths = sorted(Path(__file__).parent.glob("bench_*.py"))
    return {path.stem.removeprefix("bench_"): _first_line(path) for path in paths}


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def listing(found: dict[str, str]) -> str:
    width = max(map(len, found))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in found.items())


def arguments(found: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Run all benchmarks, or those named.",
        epilog=f"benchmarks:\n{listing(found)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark of the list below (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
