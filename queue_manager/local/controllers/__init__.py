"""Controllers beside the local API server: garbage collection, namespace deletion, event expiry, taint eviction."""
