"""Sluice: quota and queues in the style of Kueue for suspended Kubernetes Jobs."""
