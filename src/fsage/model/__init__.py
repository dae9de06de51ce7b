"""All that travels between launcher and hosts, or is frozen, declared once: Python's standard library only, 3.9 on."""
