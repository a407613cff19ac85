"""Reports the ends of Jobs, deactivations and preemptions to a command and a webhook.

`notices` finds the events in changes of Jobs and Workloads and is pure, as is `signing`; `notifier` queues them, and
`command_sink` and `webhook_sink` deliver. BEHAVIOUR.md#q133-notifications says what is promised, and the format.
"""
