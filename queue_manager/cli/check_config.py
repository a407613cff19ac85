"""`sluice check-config F`: prints all errors with their lines, or the configuration with all defaults filled in.

Errors, settings without effect, fields for which `sluice install` refuses the file, and advice go to standard error,
the configuration to standard output. With -o, all of it is one record on standard output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.machine_formats import MACHINE_FORMS
from queue_manager.cli.standard_streams import say, sentence
from queue_manager.configuration import ConfigurationError, KueueConfig, loads, own_namespace
from queue_manager.configuration.advice import advice
from queue_manager.configuration.config_as_yaml import as_loadable_tree, as_yaml
from queue_manager.configuration.loading import read_text
from queue_manager.configuration.yaml_places import ConfigurationProblem
from queue_manager.installation.fixed_config_fields import certificate_misfits, misfits

STDIN = "<stdin>"
MANAGED = "Managed"  # the default of `certificates.source`


class ConfigCode(StrEnum):
    """What kind of finding it is. Only a MISTAKE makes a configuration invalid."""

    MISTAKE = "Mistake"
    IGNORED = "Ignored"
    NOT_INSTALLABLE = "NotInstallable"
    ADVICE = "Advice"


class ConfigFinding(Struct, frozen=True, rename="camel"):
    """What is to be said of one field. `line`: None if it is not known; `field`: "" if it is about the whole file."""

    code: ConfigCode
    file: str
    line: int | None
    field: str
    message: str


class ConfigReport(Struct, frozen=True, rename="camel"):
    """The record of `-o json` and `-o yaml`. `configuration`: with all defaults; None if the file has mistakes."""

    valid: bool
    problems: list[ConfigFinding]
    configuration: dict[str, Any] | None


SAID_BEHIND = {
    ConfigCode.MISTAKE: "",
    ConfigCode.IGNORED: "",
    ConfigCode.NOT_INSTALLABLE: " (`sluice install --config` refuses it)",
    ConfigCode.ADVICE: " (advice)",
}


def run(args: argparse.Namespace) -> int:
    """Print the configuration with all defaults, or its mistakes on stderr; return the exit code."""
    name, config, found = examined(args.file)
    if args.output in MACHINE_FORMS:
        _show(args.output, config, found)
    elif config is None:
        mistakes = "1 mistake" if len(found) == 1 else f"{len(found)} mistakes"
        say("\n".join([*map(line_of, found), f"{name}: {mistakes}"]))
    else:
        head = sentence(f"# {name} is valid. With defaults:", sys.stdout, indent=0).splitlines()
        sys.stdout.write("\n# ".join(head) + f"\n{as_yaml(config)}")
        sys.stdout.flush()
        for each in found:
            say(line_of(each))
    return EXIT_OK if config is not None else EXIT_NEVER


def examined(file: str) -> tuple[str, KueueConfig | None, list[ConfigFinding]]:
    """Return the name of the file, its configuration, None if it has mistakes, and all findings.

    Raises CommandRefused for standard input without text.
    """
    name = file
    try:
        name, text = named_text(file)
        config = loads(text, name, own_namespace=own_namespace())
    except ConfigurationError as error:
        return name, None, [*_findings(ConfigCode.MISTAKE, error.problems)]
    unfit = (*misfits(config, text, name), *certificate_misfits(config, text, name, MANAGED))
    ignored = (ConfigurationProblem(name, 0, *_parts(said)) for said in config.ignored)
    return (
        name,
        config,
        [
            *_findings(ConfigCode.IGNORED, ignored),
            *_findings(ConfigCode.NOT_INSTALLABLE, unfit),
            *_findings(ConfigCode.ADVICE, advice(config, text, name)),
        ],
    )


def _findings(code: ConfigCode, problems: Iterable[ConfigurationProblem]) -> Iterator[ConfigFinding]:
    for file, line, field, message in problems:
        yield ConfigFinding(code, file, line or None, field, message)


def _parts(ignored: str) -> tuple[str, str]:
    """Return the field and why it has no effect."""
    field, _, why = ignored.partition(": ")
    return field, why


def line_of(found: ConfigFinding) -> str:
    """Return a finding as people read it."""
    if found.code == ConfigCode.IGNORED:
        return f"{found.file}: ignored: {found.field}: {found.message}"
    problem = ConfigurationProblem(found.file, found.line or 0, found.field, found.message)
    return f"{problem}{SAID_BEHIND[found.code]}"


def _show(form: str, config: KueueConfig | None, found: Sequence[ConfigFinding]) -> None:
    from queue_manager.cli import output  # imported late: people's form does not need it

    if form in ("csv", "name"):  # which are lists: of the findings
        output.show(form, (), found, "", row_type=ConfigFinding, name=_field_of)
        return
    tree = as_loadable_tree(config) if config is not None else None
    output.show_record(form, ConfigReport(config is not None, [*found], tree), str, _field_of)


def _field_of(found: object) -> str:
    return (found.field or found.file) if isinstance(found, ConfigFinding) else ""


def named_text(file: str) -> tuple[str, str]:
    """Return a name for messages and the text of a configuration in a file, or on standard input for `-`.

    Raises ConfigurationError or CommandRefused.
    """
    if file != "-":
        return file, read_text(file)
    try:
        text = sys.stdin.read()
        if not text.strip():  # empty input means that the command before the pipe failed
            raise CommandRefused(f"{STDIN}: is empty", EXIT_NEVER)
        return STDIN, text
    except UnicodeDecodeError as error:
        raise CommandRefused(f"{STDIN}: byte {error.start} is not UTF-8", EXIT_NEVER) from error
