"""Placement is tested with pods that run: the fixtures of the node agent's tests."""

from __future__ import annotations

from tests.local.agent.conftest import world

__all__ = ["world"]
