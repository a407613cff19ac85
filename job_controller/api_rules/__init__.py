"""What an API server does to a Job before it stores it: defaults, validation, stored form. Pure functions on JSON
trees.

The embedded API server and the admission webhooks call these rules; the controllers import none of them. Error texts,
their order and their repetition are those of kube-apiserver 1.36, because clients match on them
(BEHAVIOUR.md#b9-errors). `tests/golden/job-validation.jsonl` and `job-defaults.jsonl` record its answers.

    Entry points, one call per request
      defaults.py             prepare_create, prepare_update, prepare_status: fill in and normalise
      validation.py           validate_create, validate_update, warnings
      status_validation.py    validate_status_update
      dropped_fields.py       fields dropped while their feature is switched off
      pod_templates.py        defaults and validation of pods and pod templates, for other kinds too

    Jobs
      policy_validation.py    podFailurePolicy, successPolicy, managedBy
      mutability.py           which fields of the spec an update may change

    Pods
      pod_defaults.py         defaults of a pod spec
      pod_spec_validation.py  the pod spec; calls the files below
      container_validation.py, volume_validation.py, placement_validation.py, resource_validation.py
      pod_resources.py        resources of a pod as a whole (KEP-2837)

    All kinds
      metadata_validation.py, names.py, label_selectors.py
      stored_form.py          what the encoder of an API server leaves out
      field_errors.py         the texts of field errors
"""
