"""File systems that were aged by use, beside replicas of their free space.

A study that builds on it may use `Way` of its `model`, and `States` and `expand` of its `recipe`; all else may change.
"""
