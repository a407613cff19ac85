"""The process of `sluice manager`: runs the controllers against a Kubernetes cluster.

It contains what a cluster requires beyond the controllers themselves: leader election, preflight and permission checks,
probes, admission webhooks and their certificates, and the kopf process framework. Renewed credentials are picked up by
`engine.renewing_transport`.
"""
