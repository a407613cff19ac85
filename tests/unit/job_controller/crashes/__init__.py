"""The Job controller dies between any two of its writes, and nothing of it can be seen afterwards."""
