"""Writes man pages (roff, macros of man(7)) from the parser of the command line. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import date

from queue_manager.cli.exit_meanings import exit_sentence, exit_status


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands by name."""
    action = _subcommands(parser)
    return dict(action.choices) if action is not None else {}


def man_page(parser: argparse.ArgumentParser, command: str, version: str, today: date) -> str:
    """Return the page of a command, or of `sluice` itself for "". Raises KeyError for an unknown command."""
    chosen = commands_of(parser)[command] if command else parser
    summary = summaries(parser)[command] if command else "queue and run Kubernetes Jobs"
    name = f"sluice-{command}" if command else "sluice"
    lines = [
        f'.TH {name.upper()} 1 "{today.isoformat()}" "sluice {version}" "Sluice"',
        *_section("NAME", [f"{_text(name)} \\- {_text(summary)}"]),
        *_section("SYNOPSIS", [_text(" ".join(chosen.format_usage().split()[1:]))]),
        *_section("DESCRIPTION", _paragraphs(chosen.description or f"{summary[:1].upper()}{summary[1:]}.")),
        *_section("ARGUMENTS", _entries(chosen, optional=False)),
        *_section("OPTIONS", _entries(chosen, optional=True)),
        *_section("COMMANDS", [] if command else _list(summaries(parser).items())),
        *_section("NOTES", _paragraphs((chosen.epilog or "").replace(exit_sentence(command), ""))),
        *_section("EXIT STATUS", _list(exit_status(command))),
        *_section("SEE ALSO", [".BR sluice (1)" if command else "sluice man COMMAND"]),
    ]
    return "\n".join(lines) + "\n"


def man_pages(parser: argparse.ArgumentParser, version: str, today: date) -> dict[str, str]:
    """Return all pages by the names of their files."""
    files = {"sluice.1": ""} | {f"sluice-{command}.1": command for command in commands_of(parser)}
    return {file: man_page(parser, command, version, today) for file, command in files.items()}


def _subcommands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser] | None:
    return next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)


def summaries(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return what each command does, by name."""
    action = _subcommands(parser)
    return {each.dest: each.help or "" for each in action._get_subactions()} if action is not None else {}


def _section(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return [f".SH {title}", *found] if found else []


def _entries(parser: argparse.ArgumentParser, *, optional: bool) -> Iterator[str]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if bool(action.option_strings) != optional or isinstance(action, argparse._SubParsersAction):
            continue
        if action.help != argparse.SUPPRESS:
            text = formatter._expand_help(action) if action.help else ""
            yield from _entry(formatter._format_action_invocation(action), text)


def _list(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in entries:
        yield from _entry(name, text)


def _entry(name: str, text: str) -> list[str]:
    return [".TP", f"\\fB{_text(name)}\\fR", *([_text(" ".join(text.split()))] if text else [])]


def _paragraphs(text: str) -> list[str]:
    found = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    return [line for i, part in enumerate(found) for line in ([".PP"] if i else []) + [_text(part)]]


def _text(text: str) -> str:
    """Escape a line for roff: a leading dot or apostrophe would be a macro."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
