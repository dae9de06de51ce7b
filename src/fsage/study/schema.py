"""The JSON schema of a study file, as editors read it: `python -m fsage.study.schema > config/study.schema.json`."""

from __future__ import annotations

import json
import sys

from fsage import recipes, workloads
from fsage.study.cells import schema as cells_schema
from fsage.study.extra_cells import schema as additional_schema
from fsage.study.extra_cells import schemas
from fsage.study.study import Study


def schema() -> dict[str, object]:
    """Return the JSON schema of a study file, with every recipe and workload there is."""
    whole = Study.model_json_schema()
    states = []
    for name in recipes.names():
        block = recipes.load(name).States.model_json_schema()
        whole["$defs"] |= block.pop("$defs", {})  # a reference begins at the root
        states.append({**block, "required": ["recipe", *block.get("required", ())]})
    cells = []
    sentinels: list[object] = []
    traces: list[object] = []
    for name in workloads.names():
        block, one_level = cells_schema(name)
        cells.append(block)
        shapes = schemas(one_level)
        sentinels.append(shapes["sentinels"])
        traces.append(shapes["traces"])
    additional = list(map(additional_schema, workloads.names()))
    null = {"type": "null"}
    blocks: dict[str, dict[str, object]] = {
        "states": {"anyOf": states},
        "cells": {"anyOf": cells},
        "sentinels": {"anyOf": [*sentinels, null], "default": None},
        "traces": {"anyOf": [*traces, null], "default": None},
        "additional_cells": {"type": "array", "items": {"anyOf": additional}, "default": []},
        "compare": {"type": ["object", "null"], "required": ["study"], "default": None},
    }
    for key, shape in blocks.items():
        whole["properties"][key] = {"description": Study.model_fields[key].description, **shape}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2)
    print()
