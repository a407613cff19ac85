"""The admission webhooks of `sluice manager`: an API server asks here about writes to Jobs and to the queue's kinds.

    API server --TLS--> https_server ---> kopf_admission ---> admission ---> api.queue_admission and jobs.webhook
                             ^                                    ^
        certificates (certificate_keeper, certificate_secret)     cluster_contexts (small caches)

Every replica answers, whether it leads or not: the rules need only the caches of `cluster_contexts`, which are not
those of the controllers. A replica is ready once it can answer. BEHAVIOUR.md#q70-admission-webhooks and the rows that
follow it.
"""
