"""Targets on loop devices: their images, their file systems, and layouts that are written while nothing is mounted."""
