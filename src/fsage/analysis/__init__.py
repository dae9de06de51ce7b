"""What follows from a study's records before anything is drawn or advised: the report and `advise` both rest on it.

`conditions`: what must be alike before samples are pooled. `groups`: the samples that are, and each against its
reference. `headline`: the comparisons that a study declared. `drift`: whether anything changed while it was measured.
`missing`: what became of the planned cells. `agreement`: whether cells that were to compute the same did.
"""
