"""Instruments of Lustre alone."""
