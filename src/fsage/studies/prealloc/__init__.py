"""Preallocation: files whose pieces lie in turns, deleted one by one.

A study that builds on it may use `MAP_BYTES` of its `model`; all else may change.
"""
