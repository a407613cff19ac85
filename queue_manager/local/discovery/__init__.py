"""Discovery: the API groups, resources and OpenAPI documents that the server publishes."""
