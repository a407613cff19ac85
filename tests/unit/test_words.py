"""Docstrings, comments, texts, names and papers of the product use plain technical English: none of the words below.

Names of tests are short.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("queue_manager", "job_controller")
PAPERS = ("*.md", "config/*.md", "deploy/**/*.md", "queue_manager/**/*.md", "job_controller/*.md")

# What not to write, and what to write instead.
WORDS = {
    r"tells?|told|telling": "report, log, record an Event, return, decide, distinguish",
    r"stand(?:s|ing)? in line|wait(?:s|ing)? in line|lin(?:e|es|ed|ing) up": "the queue, pending, enqueue",
    r"let(?:s|ting)? go": "remove the finalizer, release",
    r"(?-i:is|are|was|were) (?-i:none)": "does not exist, is None, without",
    r"hands|free hand": "workers, an idle worker; for the verb: pass",
    r"in vain": "rejected, admission lost",
    r"use\(settings\)": "reconfigure(settings)",
    r"a look|looks at": "sync, reconcile, read",
    r"rests on|(?:wak(?:e|es|ing)|woken|woke) up": "depends on; back off, retry after",
    r"ask(?:s|ed|ing)? for": "the request, request",
    r"(?:some|no|any|every)body|someone": "the actor: a user, a client, a process",
    r"breath|rush": "a name that gives unit and purpose",
    r"for ever": "forever",
    r"mend(?:s|ed|ing)?": "fix, correct, repair",
    r"go(?:es|ing)? on": "continue, keep running",
}
NOT_PLAIN = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
# Texts of Kueue and Kubernetes that have such a word: none so far. They stay as they are, with a line here.
UPSTREAM: tuple[str, ...] = ()
# "the the", also over the end of a line; columns of a table are two spaces apart.
DOUBLED = re.compile(r"\b([a-z]+)(?: |\n *)\1\b(?!  )")
TEST_NAME = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
NAMES = {"told", "nobody", "somebody", "hands", "breath", "rush", "doomed"}  # as parts of names


def test_texts_are_plain_technical_english() -> None:
    """In place of a word that is found, write what WORDS has for it."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text[:80]!r}"
        for path, line, raw in [*texts_of_modules(), *lines_of_papers()]
        for text in [" ".join(raw.split())]
        for match in NOT_PLAIN.finditer(text)
        if not any(known in text for known in UPSTREAM)
    ]
    assert found == []


def test_no_word_is_doubled() -> None:
    """Parts of a text that Python joins are one text here: a word may end one part and begin the next."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in {text[:80]!r}"
        for path, line, text in [*texts_of_modules(), *lines_of_papers()]
        for match in DOUBLED.finditer(text)
    ]
    assert found == []


def test_names_are_plain_technical_english() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name in sorted(names(ast.parse(path.read_text())))
        if NAMES & set(name.lower().split("_"))
    ]
    assert found == []


def test_a_name_of_a_test_has_fewer_than_80_characters() -> None:
    """What does not fit belongs in the docstring of the test."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in TEST_NAME.findall(path.read_text())
        if len(name) >= 80
    ]
    assert found == []


def test_words_of_the_table_are_found_in_their_forms() -> None:
    for text in ("it tells him", "Nobody waits", "None if there is none", "what the Job asks for", "a look", "in vain"):
        assert NOT_PLAIN.search(text), text
    for text in ("`old` is None", "the table has lines", "look at its pods", "no line is lost", "the rest of it"):
        assert not NOT_PLAIN.search(text), text


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def texts_of_modules() -> list[tuple[Path, int, str]]:
    """Comments, docstrings and other texts with their lines; a text on several lines is one."""
    return list(read_texts())


def read_texts() -> Iterator[tuple[Path, int, str]]:
    for path in modules():
        source = path.read_text()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield path, token.start[0], token.string
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.lineno, node.value


def lines_of_papers() -> Iterator[tuple[Path, int, str]]:
    for pattern in PAPERS:
        for path in sorted(ROOT.glob(pattern)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield path, number, line


def names(tree: ast.AST) -> Iterator[str]:
    """The names that a module binds."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
