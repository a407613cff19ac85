"""The process of `sluice manager`: runs the controllers against a Kubernetes cluster.

It contains what a cluster requires beyond the controllers themselves: leader election, preflight and permission checks,
probes, renewal of credentials, and the kopf process framework.
"""
