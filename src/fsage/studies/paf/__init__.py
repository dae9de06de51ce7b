"""Populate and fragment: what fullness costs, and what fragmentation costs.

A study that builds on it may use `Populate` and `sizes_of` of its `model`; all else may change.
"""
