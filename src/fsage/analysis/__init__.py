"""What follows from a study's records before anything is drawn or advised: the report and `advise` both rest on it.

`conditions`: what must be alike before samples are pooled. `groups`: the samples that are, and each against its
reference. `comparisons`: those that a study declared. `validity`: what became of the planned cells, and whether
anything changed while it was measured.
"""
