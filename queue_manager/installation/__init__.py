"""What is installed on a cluster, as pure data: the one source of `sluice install`, deploy/chart and deploy/manifests.

The objects are written once, as templates (`template`): JSON whose leaves may be settings. Two renderers read them:

    settings ──► objects ──┬── template.resolve ──► `sluice install`, deploy/manifests (kustomize)
    (pydantic)             └── helm_text ─────────► deploy/chart/templates; values.yaml and its schema from the settings

Modules:

    settings, helm_values  what an admin may set; values.yaml and values.schema.json
    template, helm_text    templates and their two renderers
    rbac_objects, user_roles   service accounts and RBAC of the components; roles for people
    deployments, network_objects   processes; Services, APIServices, NetworkPolicy
    alerts, dashboard, monitoring   alert rules with their runbook, Grafana panels, and the objects that carry them
    webhook_configurations, admission_policies   webhooks, and the rules that need no server (`job_policies`,
                           `controller_only_policies`)
    objects                everything, in the order in which it is applied
    generated_files        the generated files below deploy/
"""
