"""From an HTTP request to its answer."""
