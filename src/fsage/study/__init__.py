"""Config: a study, read from its file and validated."""
