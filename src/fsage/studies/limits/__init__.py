"""What can still be had on a layout, and what fails first while the rest of it fills.

A study that builds on it may use `section`, `answer` and `sentences` of its `report`; all else may change.
"""
