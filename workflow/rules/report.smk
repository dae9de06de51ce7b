"""Takes a study's records; gives its report and tables, and the study's name as a target that compares records with plan."""

import os
import shlex

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from fsage.agent import containers
from fsage.agent.errors import Refusal

REPORT_CODE = sorted(
    str(path)
    for pattern in (
        "report/**/*.py",
        "report/templates/*",
        "analysis/*.py",
        "figures/*.py",
        "dataset/*.py",
        "statistics/*.py",
    )
    for path in Path("src/fsage").glob(pattern)
) + ["src/fsage/run/conclusion.py"]

# One setting of the target, `containers`, switches measuring and reports: as if --sdm apptainer were given here.
IMAGES = PLANS[0].target.images
IMAGE = f"{IMAGES}/{containers.ANALYSIS}.sif" if IMAGES else None
DEPLOYED = workflow.deployment_settings

if IMAGE and workflow.is_main_process:
    try:
        containers.check(IMAGES, containers.ANALYSIS)
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
            REPORT_CODE,
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
