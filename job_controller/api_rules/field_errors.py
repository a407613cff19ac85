"""Field errors as an API server reports them (upstream apimachinery field.Error). Clients match on the texts.

See BEHAVIOUR.md#b9-errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from job_controller.go_text import quote

IMMUTABLE = "field is immutable"


class FieldError(NamedTuple):
    """One rejected value. `reason` is a metav1.CauseType, `message` the text after `<field>: `."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def invalid(field: str, value: object, detail: str) -> FieldError:
    """Error: the value is not allowed here; `detail` names the allowed values (field.Invalid)."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def invalid_here(field: str, detail: str) -> FieldError:
    """As `invalid`, without the value: the API server omits it for conditions and policy rules."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """Error: the value is missing (field.Required)."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    """Error: the value is not supported (field.NotSupported)."""
    values = ", ".join(json.dumps(v) for v in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {values}")


def duplicate(field: str, value: object) -> FieldError:
    """Error: the value occurs more than once (field.Duplicate)."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """Error: the field may not be set here (field.Forbidden)."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(field: str, value: object, detail: str = "") -> FieldError:
    """Error: the value refers to something that does not exist (field.NotFound)."""
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}" + (f": {detail}" if detail else ""))


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """Error: the list has more than `limit` items (field.TooMany)."""
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {_several(limit, 'item')}")


def too_long(field: str, limit: int) -> FieldError:
    """Error: the text has more than `limit` bytes (field.TooLong)."""
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {_several(limit, 'byte')}")


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def show(value: object) -> str:
    """A value as messages print it: text quoted, other values as compact JSON escaped like Go's encoder.

    Keys keep their order: maps must be sorted by the caller (`in_order`), structs be in field order.
    """
    if isinstance(value, str):
        return quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def in_order(mapping: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A map as Go prints it: sorted by key; None stays None."""
    return None if mapping is None else dict(sorted(mapping.items()))


def sentence(errors: Iterable[FieldError]) -> str:
    """All errors as one text: equal errors once, several errors in brackets (upstream NewAggregate)."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
