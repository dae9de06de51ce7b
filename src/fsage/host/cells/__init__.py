"""Measuring: a visit to a target, the phases of its cells, what is kept of them."""
