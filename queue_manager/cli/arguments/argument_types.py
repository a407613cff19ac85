"""Texts of the command line as values; each parser raises ArgumentTypeError."""

from __future__ import annotations

import argparse
from datetime import datetime

from job_controller import quantities
from job_controller.api_rules.names import dns_label
from queue_manager.operator.required_permissions import ALL

TIMES = "2h, 3d, 1w (ago), today, yesterday, 08:30, 2026-01-31 or 2026-01-31T08:30"  # that `past_time` takes
MAX_NODES = 1000  # each node opens a watch of its own; more nodes take too long to start


def span(text: str) -> float:
    """Parse a duration as in the configuration ("10s", "1m30s"); return seconds."""
    from queue_manager import durations  # imported late: most commands do not need it

    try:
        return durations.seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def past_time(text: str) -> datetime:
    """Parse one of TIMES; one without a zone is of this machine's zone. Raises ArgumentTypeError."""
    from queue_manager.cli.points_in_time import point_in_time  # imported late: most commands do not need it

    try:
        return point_in_time(text, datetime.now().astimezone())
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as {TIMES}") from None


def job_state_list(text: str) -> tuple[str, ...]:
    """Return the states of a comma-separated list, as the STATE column has them. Raises ArgumentTypeError."""
    from queue_manager.visibility.job_states import LISTED_STATES  # imported late: most commands do not need it

    by_word = {state.lower(): state.value for state in LISTED_STATES}
    words = [part.strip() for part in text.split(",") if part.strip()]
    for word in words or [text]:
        if word.lower() not in by_word:
            raise argparse.ArgumentTypeError(f"{word!r} is not a state; choose from: {', '.join(by_word.values())}")
    return tuple(dict.fromkeys(by_word[word.lower()] for word in words))


def positive(text: str) -> int:
    """Parse a whole number of at most nine digits. Raises ArgumentTypeError unless it is at least 1."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def natural(text: str) -> int:
    """Parse a whole number of at most nine digits. Raises ArgumentTypeError unless it is at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def variable(text: str) -> tuple[str, str | None]:
    """Parse NAME=VALUE, or NAME (value None). Raises ArgumentTypeError if the name is empty."""
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value if equals else None


def node_count(text: str) -> int:
    """Parse the number of nodes. Raises ArgumentTypeError unless it is between 1 and MAX_NODES."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_NODES}")
    return number


def controllers(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of controllers, without repetitions. Raises ArgumentTypeError for unknown ones."""
    chosen = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for name in chosen:
        if name not in ALL:
            raise argparse.ArgumentTypeError(f"{name!r} is not a controller; choose from: {', '.join(ALL)}")
    if not chosen:
        raise argparse.ArgumentTypeError("names no controller")
    return tuple(chosen)


def quantity(text: str) -> str:
    """Return `text` unchanged if it is a Kubernetes quantity greater than 0; raises ArgumentTypeError otherwise."""
    try:
        amount = quantities.exact(text)
    except quantities.MalformedQuantity:
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity such as 4, 500m, 512Mi or 8Gi") from None
    if amount <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not greater than 0")
    return text


def port(text: str) -> int:
    """Parse a TCP port; 0 is any free one. Raises ArgumentTypeError."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return number


def namespace(text: str) -> str:
    """Return the name of a namespace. Raises ArgumentTypeError unless it is a DNS label."""
    wrong = dns_label(text)
    if wrong:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a namespace: {wrong[0]}")
    return text


def name_list(text: str) -> tuple[str, ...]:
    """Return the distinct names of a comma-separated list, in its order. Raises ArgumentTypeError for an empty list."""
    names = tuple(dict.fromkeys(namespace(part.strip()) for part in text.split(",") if part.strip()))
    if not names:
        raise argparse.ArgumentTypeError("names no namespace")
    return names
