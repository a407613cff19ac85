"""History and accounting: what happened to each Job, in a database that outlives the Job.

    caches --> step_reading (pure) --> recorder --> history_writer --> history_store (SQLAlchemy; SQLite or PostgreSQL)
    history_queries --> job_summary, usage_report (pure)

The recorder reads the changes in the caches of the controllers, so it works alike in `sluice up` and `sluice manager`.
`sluice history` and `sluice report` read the store without an API server. BEHAVIOUR.md#q117-history.
"""
