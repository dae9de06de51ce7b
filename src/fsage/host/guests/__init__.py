"""Kinds of target whose work guests do: what such a kind is asked, its target in a guest, and what a guest does.

A state is an image there, made in one guest, and each cell has a copy of its own. What a guest does is the host side's
own work, by the same verbs, on its own disk and with a home of its own.
"""
