"""The kinds of step, one module each, named after it: see fsage.host.structure."""
