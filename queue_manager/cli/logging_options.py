"""The options --log-format and --log-level, and those of Kueue's manager that mean the same.

The logging itself is imported when an option is parsed: all commands share one parser, and most have no such option.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queue_manager.engine.log import LogSettings

LEVELS = ("error", "warning", "info", "debug")
ZAP_ENCODERS = {"json": "json", "console": "text"}
ZAP_LEVELS = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
ZAP_DEBUG = 3  # verbosities up to 2 are those of normal operation, of which Kueue's installation has the second


def add_log_options(command: argparse.ArgumentParser, level: str) -> None:
    """Add the options to a command whose default level this is."""
    command.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="of the lines on stderr (default: text)"
    )
    command.add_argument(
        "--log-level",
        type=levels,
        default=level,
        metavar="L",
        help=f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]} (default: {level}), and of single loggers: info,LOGGER=debug",
    )
    command.set_defaults(default_log_level=level)


def add_zap_options(command: argparse.ArgumentParser) -> None:
    """Add Kueue's options, so that arguments written for its manager keep their meaning."""
    command.add_argument("--zap-log-level", dest="log_level", type=zap_level, help=argparse.SUPPRESS)
    command.add_argument("--zap-encoder", dest="log_format", type=zap_encoder, help=argparse.SUPPRESS)


def settings_of(args: argparse.Namespace) -> LogSettings:
    """Return the log settings that the options state."""
    from queue_manager.engine import log

    chosen: dict[str, str] = args.log_level
    single = {name: log.LEVELS[level] for name, level in chosen.items() if name}
    return log.LogSettings(args.log_format, log.LEVELS[chosen.get("", args.default_log_level)], single)


def levels(text: str) -> dict[str, str]:
    """Parse "info,queue_manager.engine.rest_client=debug": the level of each logger, "" for Sluice's own."""
    result: dict[str, str] = {}
    for part in text.split(","):
        logger, _, level = part.strip().rpartition("=")
        if level.lower() not in LEVELS or (not logger and "=" in part):
            raise argparse.ArgumentTypeError(f"{part!r} is not LEVEL or LOGGER=LEVEL, with {', '.join(LEVELS)}")
        result[logger] = level.lower()
    return result


def zap_level(text: str) -> dict[str, str]:
    """Parse the value of Kueue's --zap-log-level: a name, or a verbosity."""
    if text.isascii() and text.isdigit() and int(text) > 0:
        return {"": "debug" if int(text) >= ZAP_DEBUG else "info"}
    if text not in ZAP_LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(ZAP_LEVELS)}, nor a number above 0")
    return {"": ZAP_LEVELS[text]}


def zap_encoder(text: str) -> str:
    """Parse the value of Kueue's --zap-encoder."""
    if text not in ZAP_ENCODERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(ZAP_ENCODERS)}")
    return ZAP_ENCODERS[text]
