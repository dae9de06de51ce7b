"""All that travels between launcher and hosts, or is frozen, declared once: Python's standard library only, 3.9 on."""

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
