"""Takes a study's records; gives its report and tables, and the study's name as a target that compares records with plan."""

import os
import shlex

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from fsage import seam
from fsage.model.tools import ANALYSIS
from fsage.model.errors import Refusal


def code_of_reports(wildcards):
    """What a report may depend on: all of the package, looked for only where a report is asked for."""
    return sorted(str(path) for path in Path("src/fsage").rglob("*") if path.suffix in (".py", ".j2", ".css", ".js"))


# One setting of the target, `containers`, switches measuring and reports: as if --sdm apptainer were given here.
DECLARED = sorted({plan.target.images or "none" for plan in PLANS})
if len(DECLARED) > 1:
    raise WorkflowError(
        f"targets {', '.join(TARGETS)} declare {' and '.join(DECLARED)} as folder of images, and one report is made of "
        "all: declare the same fsage_target.containers in their inventories"
    )
IMAGES = PLANS[0].target.images
IMAGE = f"{IMAGES}/{ANALYSIS}.sif" if IMAGES else None
DEPLOYED = workflow.deployment_settings

if IMAGE and workflow.is_main_process:
    try:
        seam.here().check_images(IMAGES)
    except Refusal as refusal:
        raise WorkflowError(str(refusal)) from None
    DEPLOYED.imply_deployment_method(DeploymentMethod.APPTAINER)
    # What a report reads and writes may lie elsewhere than this folder, which the container sees.
    for name in ("results", "studies", "inventories"):
        path = os.path.realpath(os.environ[f"FSAGE_{name.upper()}"])
        DEPLOYED.apptainer_args += f" --bind {shlex.quote(path)}"
elif not IMAGE and DeploymentMethod.APPTAINER in DEPLOYED.deployment_method:
    raise WorkflowError(
        f"--sdm apptainer was given, but inventories/{TARGETS[0]} declares no folder of images: set fsage_target.containers there, "
        "which switches both measuring and reports"
    )


report: "../report/workflow.rst"


for pool in POOLS.values():

    rule:
        name:
            f"report_{pool.study.name}"
        input:
            records_of(pool),
            pool.compared_records,
            code_of_reports,
            f"{os.environ['FSAGE_STUDIES']}/{pool.study.name}.yaml",
        output:
            report(
                str(pool.results.report / "index.html"),
                caption="../report/study.rst",
                category=pool.study.title,
                labels={"what": "the whole report"},
            ),
            str(pool.results.report / "records.parquet"),
            report(
                str(pool.results.report / "records.csv"),
                caption="../report/table.rst",
                category=pool.study.title,
                labels={"what": "all records"},
            ),
            report(
                directory(str(pool.results.report / "figures")),
                patterns=["{figure}.svg"],
                caption="../report/figure.rst",
                category=pool.study.title,
                subcategory="Figures",
                labels={"what": "{figure}"},
            ),
        localrule: True
        container:
            IMAGE
        params:
            study=pool.study.name,
        message:
            f"Make the report of {pool.study.name}"
        shell:
            "fsage report {params.study:q}"

    rule:
        name:
            pool.study.name
        input:
            records_of(pool),
            str(pool.results.report / "index.html"),
        localrule: True
        container:
            IMAGE
        params:
            study=pool.study.name,
        message:
            f"Compare the records of {pool.study.name} with its plan"
        shell:
            "fsage conclude {params.study:q}"
