"""Schemas of API objects: strict decoding of built-in kinds, structural schemas of custom kinds, and stored forms."""
