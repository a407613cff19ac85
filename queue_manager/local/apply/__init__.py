"""Server-side apply (KEP-555): merge apply configurations and track which manager owns which field."""
