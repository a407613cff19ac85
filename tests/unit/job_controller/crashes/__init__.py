"""The Job controller stops between any two of its writes, and the Job ends as if it had not."""
