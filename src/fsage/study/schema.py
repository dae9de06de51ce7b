"""The JSON schema of a study file, as editors read it: `python -m fsage.study.schema > config/study.schema.json`."""

from __future__ import annotations

import json
import sys

from fsage.study.study import Study


def schema() -> dict[str, object]:
    """Return the JSON schema of a study file, with every recipe and workload there is."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Study.model_json_schema()}


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2)
    print()
