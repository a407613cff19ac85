"""Histories written by hand: each policy and life-cycle rule of batch/v1, one fact each."""

from __future__ import annotations

from tests.control_plane.jobs.scenarios import counting, limits, policies, suspension

ALL = (*counting.SCENARIOS, *limits.SCENARIOS, *policies.SCENARIOS, *suspension.SCENARIOS)
