"""What is wrong with a cluster: rules over a snapshot of it, for `sluice doctor`. Pure.

| file | question |
|---|---|
| `snapshot.py` | what the rules read |
| `queue_rules.py` | do queues, flavors and quotas fit each other and the nodes? |
| `retry_rules.py` | do the settings of waitForPodsReady end what does not start, and leave time to start? |
| `waiting_rules.py` | which Jobs wait for what only a user changes: their spec, a stopped queue, cordoned nodes? |
| `stuck_object_rules.py` | is an object stuck in its deletion, or left behind by its owner? |
| `manager_and_certificate_rules.py` | do certificates, clocks and the manager's Lease hold? |
| `examination.py` | all of them, worst findings first |

A rule returns nothing about objects that could not be read.
"""
