"""Objects under one increasing resourceVersion: the store, its history for watches, its journal on disk."""
