"""Preallocation: files whose pieces lie in turns, deleted one by one."""
