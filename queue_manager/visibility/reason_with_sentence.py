"""A dominant reason with its sentence, before it becomes a record. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from queue_manager.visibility.scheduler_judgement import Judgement


@dataclass(frozen=True, slots=True)
class Finding:
    """The dominant reason of one Job: its sentence, what would change it, and the command to type next."""

    reason: str  # "": it runs or has ended
    sentence: str
    changes: tuple[str, ...] = ()
    command: str = ""
    message: str = ""
    judgement: Judgement | None = None


def with_besides(sentence: str, what: str) -> str:
    """Return the sentence with what else keeps the Job from starting; `Besides` occurs once in it."""
    return f"{sentence} {'Also' if ' Besides, ' in sentence else 'Besides'}, {what}."


def sentence_of(text: str) -> str:
    """Return the text as a sentence: capitalized, with a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
