"""The kinds of step, by the studies that made them: see fsage.model.structure."""
