"""Takes config/*.yaml; gives their names and titles to `snakemake --list`, and no rule that is the DAG's own business."""

import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

from fsage.plan import settings
from fsage.study.study import StudyError, load_study

try:
    FOLDER = Path(settings.places(config, os.environ)["FSAGE_STUDIES"])
    TITLES = {path.stem: load_study(path).title for path in sorted(FOLDER.glob("*.yaml"))}
except StudyError as error:
    raise WorkflowError(str(error)) from None


for study, title in TITLES.items():

    rule:
        name:
            study

    workflow.get_rule(study).docstring = title
