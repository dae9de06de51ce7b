"""A small study as tests change it, and what studies come to."""

from pathlib import Path

from fsage import recipes
from fsage.study.comparisons import means

CONFIG = Path(__file__).parents[1] / "config"
PLAIN = Path(__file__).parent / "data/plain"
"""Quickstart and Series 1 with one layout a state, and all iterations at one place."""
MIB = 1 << 20


def blocks(**changes):
    """A small study as YAML would give it, with some of its top blocks replaced."""
    states = {"recipe": "paf", "capacity": [10, 80], "fragmentation": [0, 30], "file_size": "264M"}
    cells = {"workload": "sequential", "transfer_size": ["8M", "64M"], "iterations": 2}
    return {"name": "small", "title": "t", "question": "q", "states": states, "cells": cells, **changes}


def generations(*notation, **changes):
    """A block `states:` of whole structures."""
    return {"recipe": "paf", "notation": list(notation), **changes}


def names(study):
    """(state, cell) of all of a study."""
    return [(state.name, cell.name) for state in recipes.expand(study) for cell in study.cells_of(state)]


def state_named(study, text):
    """The state that 'AA.BB' or a whole name means; of several layouts the first."""
    return next(state for state in recipes.expand(study) if means(text, state.name))
