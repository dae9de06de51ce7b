"""The JSON schema of a study file, as editors read it: `python -m fsage.study.schema > config/study.schema.json`."""

from __future__ import annotations

import json
import sys

from pydantic import BaseModel

from fsage import recipes, workloads
from fsage.study.cells import schema as cells_schema
from fsage.study.extra_cells import schema as additional_schema
from fsage.study.extra_cells import schemas
from fsage.study.study import Study


def schema() -> dict[str, object]:
    """Return the JSON schema of a study file, with every recipe and workload there is."""
    whole = Study.model_json_schema()
    blocks = list(map(cells_schema, workloads.names()))
    states = [_required(recipes.load(name).States, "recipe") for name in recipes.names()]
    for block in states:  # a reference begins at the root
        whole["$defs"] |= block.pop("$defs", {})
    shapes: dict[str, dict[str, object]] = {
        "states": {"anyOf": states},
        "cells": {"anyOf": [cells for cells, _ in blocks]},
        **{
            key: {"anyOf": [*(schemas(one_level)[key] for _, one_level in blocks), {"type": "null"}], "default": None}
            for key in ("sentinels", "traces")
        },
        "additional_cells": {
            "type": "array",
            "items": {"anyOf": list(map(additional_schema, workloads.names()))},
            "default": [],
        },
        "compare": {"type": ["object", "null"], "required": ["study"], "default": None},
    }
    for key, shape in shapes.items():
        whole["properties"][key] = {"description": Study.model_fields[key].description, **shape}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _required(model: type[BaseModel], key: str) -> dict[str, object]:
    described = model.model_json_schema()
    return {**described, "required": [key, *described.get("required", ())]}


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2)
    print()
