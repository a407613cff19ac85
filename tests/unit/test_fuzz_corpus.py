"""Every saved input of `make fuzz` is decoded as documented; and the fuzzer notices what is not.

An input of the corpus that fails here is repeated alone by `python -m tests.fuzz.repeat TARGET FILE`.
"""

from __future__ import annotations

import json
import logging
from random import Random
from time import process_time

import pytest

from tests.fuzz import targets
from tests.fuzz.corpus_files import CORPUS, inputs, repeat_command
from tests.fuzz.mutation import mutated
from tests.fuzz.target import Failure, Target, check, require_stable


@pytest.mark.parametrize("name", targets.NAMES)
def test_every_saved_input_is_decoded_as_documented(name: str) -> None:
    target, files = targets.load(name), inputs(name)
    assert files, "the corpus has no input of this target"
    accepted = 0
    for file in files:
        try:
            accepted += check(target, file.read_bytes())
        except Exception as error:
            raise AssertionError(f"{file.name}: {error!r}; repeat: {repeat_command(name, file)}") from error
    assert accepted, "no input is accepted, so the target tests only refusals"


def test_the_corpus_has_no_input_of_another_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir() if folder.is_dir()} == set(targets.NAMES)


def test_an_undocumented_exception_fails_an_input() -> None:
    def decode(head: str, body: bytes) -> None:
        raise KeyError(body)

    with pytest.raises(KeyError):
        check(Target(decode, (ValueError,)), b"a")
    assert check(Target(decode, (KeyError,)), b"a") is False


def test_an_exception_that_is_only_logged_fails_an_input() -> None:
    def decode(head: str, body: bytes) -> None:
        try:
            int(body)
        except ValueError:
            logging.getLogger("queue_manager.fuzzed").exception("unexpected")

    with pytest.raises(Failure, match="logged as unexpected: ValueError"):
        check(Target(decode, ()), b"a")
    assert check(Target(decode, ()), b"1") is True


def test_a_value_that_changes_fails_an_input() -> None:
    with pytest.raises(Failure, match="the number changes"):
        require_stable("the number", 1, 2)


@pytest.mark.parametrize(("seconds", "text"), [(0.1, "took"), (60, "still running")])
def test_work_that_takes_too_long_fails_an_input(seconds: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.target.CPU_SECONDS", 0.05)
    monkeypatch.setattr("tests.fuzz.target.HANG_CPU_SECONDS", 0.3)

    def decode(head: str, body: bytes) -> None:
        until = process_time() + seconds
        while process_time() < until:
            pass

    with pytest.raises(Failure, match=text):
        check(Target(decode, ()), b"")


def test_a_mutation_keeps_json_and_the_head_readable() -> None:
    target = Target(lambda head, body: None, (), ("one", "two"))
    data = b'one\n{"a": [1, {"b": "c"}], "d": null}'
    found = [mutated(target, data, [], 4096, seed, lambda given, room: given) for seed in range(300)]
    bodies = [each.partition(b"\n") for each in found]
    assert {head for head, _, _ in bodies} == {b"one", b"two"}
    assert len({json.dumps(json.loads(body)) for _, _, body in bodies}) > 100


def test_mutations_with_the_same_seed_are_the_same() -> None:
    target = Target(lambda head, body: None, (), tokens=("x",))

    def some(seed: int) -> bytes:
        return mutated(target, b"abc", [b"def"], 64, seed, lambda given, room: given[::-1])

    seeds = [Random(1).randrange(1000) for _ in range(50)]
    assert [some(seed) for seed in seeds] == [some(seed) for seed in seeds]
