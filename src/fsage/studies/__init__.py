"""The studies, a folder each: recipe, model (what travels), host, workloads, report, advice (see model.plugins)."""
