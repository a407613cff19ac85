"""Patch formats of the local API server: merge patch, JSON patch and strategic merge patch."""
