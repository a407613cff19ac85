"""The object store: objects under one increasing resourceVersion, a change log for watches, and a journal on disk."""
