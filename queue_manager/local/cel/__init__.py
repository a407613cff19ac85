"""The expression language of validation rules, as Kubernetes extends it."""
