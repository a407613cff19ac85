"""The fixtures of the API server's tests."""

from __future__ import annotations

from tests.local.server.conftest import world

__all__ = ["world"]
