"""The sample project is run by its tests as a project of its own."""

collect_ignore = ["sample_project"]
