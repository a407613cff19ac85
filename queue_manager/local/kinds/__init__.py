"""The built-in kinds, a file per group."""
