"""The facet of AdmissionCheck: a delay that has had no effect since Kueue 0.8."""

from __future__ import annotations

from queue_manager.api.conversion.facets import only_in_v1beta1

FACETS = (only_in_v1beta1(("spec",), "retryDelayMinutes"),)
