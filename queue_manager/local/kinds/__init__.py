"""The kinds that the embedded API server serves: defaults, validation, printed rows and custom kinds."""
