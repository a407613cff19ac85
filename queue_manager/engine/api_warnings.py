"""The warnings that an API server sends with a response, as `kubectl` prints them.

They are headers `Warning: 299 - "text"` (RFC 7234, section 5.5; KEP-1693). A response may carry several headers, and a
header several warnings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def warnings(headers: Mapping[str, str]) -> list[str]:
    """The texts of all warnings in `headers`, in order, without duplicates."""
    values = [value for name, value in headers.items() if name.lower() == "warning"]
    texts = [re.sub(r"\\(.)", r"\1", text) for value in values for text in _WARNING.findall(value)]
    return list(dict.fromkeys(texts))
