"""The built-in Job controller and ours on one API server: same history, same end."""
