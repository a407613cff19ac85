"""Server-side apply (KEP-555) and field ownership: merge apply configurations and track which manager owns
which field.
"""
