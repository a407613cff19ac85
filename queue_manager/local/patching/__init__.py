"""Merge, JSON and strategic merge patches."""
