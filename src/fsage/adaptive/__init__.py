"""Which cells to measure where time is short, and what the others must be.

`surface` says what rates are where nothing was measured, and how sure that is; `design`, what to measure next.
"""
