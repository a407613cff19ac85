"""The built-in Job controller and ours on one API server: the same history must end the same."""
