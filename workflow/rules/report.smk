"""Takes the manifests of a study's states; gives report, tables and counts, and a target: records against plan."""

from snakemake.settings.types import DeploymentMethod

from fsage import seam
from fsage.base import Refusal
from fsage.model.tools import ANALYSIS

# One setting of the targets, `containers`, switches measuring and reports: as if --sdm apptainer were given here.
DECLARED = sorted({plan.target.images or "none" for plan in CALL.plans})
if len(DECLARED) > 1:
    raise WorkflowError(
        f"targets {', '.join(CALL.targets)} declare {' and '.join(DECLARED)} as folder of images, and one report is made "
        "of all: declare the same fsage_target.containers in their inventories"
    )
IMAGES = None if DECLARED == ["none"] else DECLARED[0]
IMAGE = f"{IMAGES}/{ANALYSIS}.sif" if IMAGES else None
DEPLOYED = workflow.deployment_settings

if IMAGE and workflow.is_main_process:
    try:
        seam.check_images(IMAGES)
    except Refusal as refusal:
        raise WorkflowError(str(refusal)) from None
    DEPLOYED.imply_deployment_method(DeploymentMethod.APPTAINER)
    # What a report reads and writes may lie elsewhere than this folder, which the container sees.
    for place in CALL.folders:
        DEPLOYED.apptainer_args += f" --bind {shlex.quote(os.path.realpath(place))}"
elif not IMAGE and DeploymentMethod.APPTAINER in DEPLOYED.deployment_method:
    raise WorkflowError(
        f"--sdm apptainer was given, but inventories/{CALL.targets[0]} declares no folder of images: set "
        "fsage_target.containers there, which switches both measuring and reports"
    )


report: "../report/workflow.rst"


for pool in CALL.pools.values():
    manifests = manifests_of(pool)

    for plan in pool.counted:

        # lint: log: what it says is a line or two, for who waits for it
        # lint: container: the environment is ./run's, made from the lock
        rule count_study:
            name:
                f"count_{pool.study.name}{on(plan.target.name)}"
            input:
                manifests=manifests,
            output:
                counts=str(plan.results.counts / "counts.parquet"),
            localrule: True
            params:
                target=plan.target.name,
                study=pool.study.name,
            message:
                f"Count where new files lie in {pool.study.count.layouts} layouts of {pool.study.name}"
            shell:
                "fsage --target={params.target:q} tabulate {params.study:q}"

    # lint: log: what it says is a line or two, for who waits for it
    # lint: container: where the targets declare no images, the environment is ./run's, made from the lock
    rule report_study:
        name:
            f"report_{pool.study.name}"
        input:
            manifests=manifests,
            counts=[str(plan.results.counts / "counts.parquet") for plan in pool.counted],
            compared=pool.compared_records,
            code=code_of_reports,
            study=str(CALL.studies / f"{pool.study.name}.yaml"),
        output:
            page=report(
                str(pool.results.report / "index.html"),
                caption="../report/study.rst",
                category=pool.study.title,
                labels={"what": "the whole report"},
            ),
            columns=str(pool.results.report / "records.parquet"),
            table=report(
                str(pool.results.report / "records.csv"),
                caption="../report/table.rst",
                category=pool.study.title,
                labels={"what": "all records"},
            ),
            figures=report(
                directory(str(pool.results.report / "figures")),
                patterns=["{figure}.svg"],
                caption="../report/figure.rst",
                category=pool.study.title,
                subcategory="Figures",
                labels={"what": "{figure}"},
            ),
        benchmark:
            str(pool.results.benchmark("report"))
        localrule: True
        container:
            IMAGE
        params:
            study=pool.study.name,
        message:
            f"Make the report of {pool.study.name}"
        shell:
            "fsage report {params.study:q}"

    # lint: log: what it says is a line or two, for who waits for it
    # lint: container: where the targets declare no images, the environment is ./run's, made from the lock
    rule conclude_study:
        name:
            pool.study.name
        input:
            manifests=manifests,
            page=str(pool.results.report / "index.html"),
        localrule: True
        container:
            IMAGE
        params:
            study=pool.study.name,
        message:
            f"Compare the records of {pool.study.name} with its plan"
        shell:
            "fsage conclude {params.study:q}"
