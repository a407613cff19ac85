"""Messages about invalid YAML, by the commands that read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.cli import manifests
from queue_manager.cli.exit_codes import CommandRefused
from queue_manager.configuration import ConfigurationError, loads

LIST, MAPPING = ('the list opened with "[" is not closed', 'the mapping opened with "{" is not closed')


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1,", 1, LIST),
        ("a: [1\n", 1, LIST),
        ("a: [\n", 1, LIST),
        ("a: {b: 1\n", 1, MAPPING),
        ("a: [1, {b: 2\nc: 3\n", 2, MAPPING),
        ("a: [{b: 2}, 3\n", 1, LIST),
        ('a: "x\n', 1, "a quoted text is not closed"),
        ("a:\n\tb: 1\n", 2, "a tab cannot indent; use spaces"),
        ("a: b: c\n", 1, "mapping values are not allowed in this context"),
    ],
)
def test_an_unclosed_bracket_is_named(text: str, line: int, says: str, tmp_path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    with pytest.raises(CommandRefused) as refused:
        manifests.read(str(file))
    assert str(refused.value) == f"nothing was submitted:\n  {file}:{line}: not YAML: {says}"


def test_a_configuration_has_the_same_messages() -> None:
    with pytest.raises(ConfigurationError) as refused:
        loads("a: [1\n", "f")
    assert str(refused.value) == f"f:1: not YAML: {LIST}; a Configuration is a YAML mapping"


def test_an_alias_that_names_nothing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\nb: [*nowhere, 1]\n")
    with pytest.raises(CommandRefused, match=r"f.yaml:2: found undefined alias \*nowhere$"):
        manifests.read(str(file))
