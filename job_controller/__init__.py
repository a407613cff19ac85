"""What a batch/v1 Job means: pure decisions and one thin controller."""
