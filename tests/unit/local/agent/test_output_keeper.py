"""In which order the lines of two streams are written, and which parts of lines are held."""

from __future__ import annotations

import pytest

from queue_manager.local.agent.output_keeper import ERR, MOST_HELD, OUT, OutputStream, merged


@pytest.mark.parametrize(
    ("out", "err", "runs", "expected"),
    [
        ("ac", "b", [OUT, ERR, OUT], "abc"),
        ("b", "ac", [ERR, OUT, ERR], "abc"),
        ("ab", "cd", [OUT, ERR], "abcd"),
        ("cd", "ab", [ERR, OUT], "abcd"),
        ("abef", "cd", [OUT, ERR, OUT], "abcdef"),
        ("b", "a", [OUT, ERR, OUT], "ab"),  # the first run is of a line that was read before
        ("a", "b", [OUT], "ab"),  # the event of the other stream is late
        ("b", "a", [ERR], "ab"),
        ("ab", "cd", [], "abcd"),  # nothing is known: standard output first
        ("abc", "", [OUT, ERR, OUT], "abc"),
        ("c", "abde", [ERR, OUT, ERR], "abcde"),
        ("cf", "abdeg", [ERR, OUT, ERR, OUT, ERR], "abcdefg"),  # longer runs first
        ("", "abc", [OUT], "abc"),
    ],
)
def test_lines_are_in_the_order_of_the_runs(out: str, err: str, runs: list[str], expected: str) -> None:
    lines = [[letter.encode() for letter in text] for text in (out, err)]
    assert b"".join(merged(lines[0], lines[1], runs)).decode() == expected


@pytest.mark.parametrize("count", [1, 2, 5, 100])
@pytest.mark.parametrize("runs", [[], [OUT], [ERR, OUT], [OUT, ERR] * 3, [ERR, OUT] * 200])
def test_no_line_is_lost_or_doubled_whatever_the_runs(count: int, runs: list[str]) -> None:
    out = [b"out %d" % number for number in range(count)]
    err = [b"err %d" % number for number in range(7)]
    found = merged(out, err, runs)
    assert [line for line in found if line.startswith(b"out")] == out
    assert [line for line in found if line.startswith(b"err")] == err


def test_the_beginning_of_a_line_waits_for_its_end() -> None:
    stream = OutputStream(OUT)
    assert stream.lines(b"one\ntw", 10) == b"one\n"
    assert (stream.held, stream.since) == (b"tw", 10)
    assert stream.lines(b"o", 11) == b""
    assert stream.since == 10
    assert stream.lines(b"\nthree", 12) == b"two\n"
    assert (stream.held, stream.since) == (b"three", 12)
    assert stream.rest() == b"three"
    assert stream.rest() == b""


def test_a_line_that_is_too_long_is_not_held() -> None:
    stream = OutputStream(OUT)
    assert stream.lines(b"x" * MOST_HELD, 1) == b""
    assert stream.lines(b"y", 1) == b"x" * MOST_HELD + b"y"
