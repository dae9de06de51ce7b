"""The studies, a folder each: recipe, model (what travels), host, workloads, report, advice (see model.plugins).

Three folders beside them are no studies, and are found in the same way: `lustre`, `neighbours` and `slowdisk`.

In a clone those in its folder `extensions/` belong to them. They are found by name as these are.
"""

from pathlib import Path

_source = Path(__file__).parents[2]
if _source.name == "src":  # elsewhere, as in the agent's zip, all lie here
    __path__.append(str(_source.parent / "extensions"))
