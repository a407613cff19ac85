"""The Common Expression Language (CEL) of validation rules, with the extensions of Kubernetes."""
