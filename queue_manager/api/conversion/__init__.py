"""Conversion between v1beta1 and v1beta2 of the kinds of kueue.x-k8s.io.

v1beta2 is stored. An API server converts objects that clients send or read in v1beta1: on a cluster it calls the
conversion webhook (`conversion_review`), the embedded server calls `convert`.

A facet (`facets`) is a group of fields of one object that the versions express differently; each kind has a module with
its facets. All other fields are the same in both versions. What a version cannot express is kept in an annotation
(`keys.ONLY_IN_V1BETA1`, `keys.ONLY_IN_V1BETA2`), so that a round trip loses nothing. BEHAVIOUR.md#q75-two-versions.
"""

from queue_manager.api.conversion.object_conversion import FACETS, ConversionError, convert

__all__ = ["FACETS", "ConversionError", "convert"]
