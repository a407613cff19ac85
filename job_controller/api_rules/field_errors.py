"""Field errors: what an API server says about a value it refuses.

The texts are API: clients match on them (spec: job-controller-measured.md, section 2.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from job_controller.go_text import quote

# What many kinds of values are refused with.
IMMUTABLE = "field is immutable"


class FieldError(NamedTuple):
    """One refused value. `reason` is a metav1.CauseType, `message` the text after `<field>: `."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def invalid_here(field: str, detail: str) -> FieldError:
    """An invalid value that is not printed (conditions, rule objects)."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    values = ", ".join(json.dumps(v) for v in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {values}")


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(field: str, value: object, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}" + (f": {detail}" if detail else ""))


def too_many(field: str, actual: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {_several(limit, 'item')}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {_several(limit, 'byte')}")


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def show(value: object) -> str:
    """A value as the messages print it: text quoted, anything else as compact JSON the way Go's encoder writes it.

    The order of keys is kept: maps must come sorted (`in_order`), structs in the order of their fields.
    """
    if isinstance(value, str):
        return quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def in_order(mapping: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A map as Go prints it: sorted by key, a missing one as null."""
    return None if mapping is None else dict(sorted(mapping.items()))


def sentence(errors: Iterable[FieldError]) -> str:
    """All errors as one text: equal ones once, several in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
