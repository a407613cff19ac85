"""Phases of pods (core/v1 types.go, PodPhase)."""

from __future__ import annotations

from typing import Final

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"

TERMINAL: Final = (SUCCEEDED, FAILED)  # a pod never leaves one of these
