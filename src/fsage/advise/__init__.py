"""A choice from measurements: which layout, preallocation or defragmentation suits which files and work, how surely.

`distribution`: the files it is for. `measured`: what was measured, as seconds for a MiB. `choices` and a module for
each recipe: which measurements speak of a file of some size under some choice. `decide`: what follows from them, and
what does not. `show`: words, a table, JSON. `command` puts these together for the command line.
"""
