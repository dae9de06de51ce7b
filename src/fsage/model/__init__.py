"""All that travels between launcher and hosts, or is frozen, declared once: Python's standard library only, 3.9 on."""

MIB = 1 << 20
GIB = 1 << 30
