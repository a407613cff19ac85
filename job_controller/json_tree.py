"""The type of decoded JSON.

Rules about whole objects (defaults, validation, patches) work on JSON trees as received. Decisions work on the Structs
of `model`.
"""

from __future__ import annotations

from typing import Any

Json = Any
