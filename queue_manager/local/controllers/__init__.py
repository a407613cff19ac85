"""What runs beside the API server: collection of garbage, the end of namespaces, expiry of events."""
