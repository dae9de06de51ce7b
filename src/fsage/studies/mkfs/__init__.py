"""Axis `mkfs` of any study: its states on file systems that are made with other options."""
