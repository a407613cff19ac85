"""Runs the console blocks of the README and compares what they print with what the README says they print.

A line after `$ ` is a command, the lines up to the next one are its output. Times, generated name endings
and ports differ from run to run and are compared by their form only; a line `...` stands for any lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
VARIABLE = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"(?<![\w.-])\d+(\.\d+)?(ms|s|m\d+s|m|h\d+m)(?![\w-])"), "TIME"),
    (re.compile(r"\d+(\.\d+)? s\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?=[\s'\"]|$)"), "-RAND"),
    (re.compile(r"-[0-9a-f]{5}(?=[\s'\"]|$)"), "-HASH"),
    (re.compile(r"[█░]+"), "BAR"),
)


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]
    line: int


def steps(text: str) -> list[list[Step]]:
    """The console blocks of a Markdown text, in order."""
    blocks: list[list[Step]] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console" if not inside else False
            if inside:
                blocks.append([])
        elif inside and line.startswith("$ "):
            blocks[-1].append(Step(line[2:], [], number))
        elif inside and blocks[-1]:
            blocks[-1][-1].output.append(line)
    return blocks


def form(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, name in VARIABLE:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the output has the expected form."""
    want = [form(line) for line in expected if line.strip()]
    have = [form(line) for line in actual if line.strip()]
    return _matches(want, have)


def _matches(want: list[str], have: list[str]) -> bool:
    if not want:
        return not have
    if want[0] == "...":
        return any(_matches(want[1:], have[skip:]) for skip in range(len(have) + 1))
    return bool(have) and want[0] == have[0] and _matches(want[1:], have[1:])
