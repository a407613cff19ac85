"""The embedded Kubernetes API server: takes an HTTP request through parsing, admission and storage to its response."""
