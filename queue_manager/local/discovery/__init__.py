"""What the server says of itself: API groups, resources, OpenAPI."""
