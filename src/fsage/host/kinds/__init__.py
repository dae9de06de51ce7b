"""The kinds of target, one module each, named after it: see fsage.host.targets.kinds."""
