"""Takes a study's records; gives its report and tables, and the study's name as a target that compares records with plan."""

REPORT_CODE = sorted(
    str(path)
    for pattern in ("report/**/*.py", "report/templates/*", "figures/*.py")
    for path in Path("src/fsage").glob(pattern)
) + [f"src/fsage/{name}.py" for name in ("dataset", "statistics", "conclusion")]

for plan in PLANS.values():

    rule:
        name:
            f"report_{plan.study.name}"
        input:
            records_of(plan),
            plan.compared_records,
            REPORT_CODE,
            f"{os.environ['FSAGE_STUDIES']}/{plan.study.name}.yaml",
        output:
            str(plan.results.report / "index.html"),
            str(plan.results.report / "records.parquet"),
            str(plan.results.report / "records.csv"),
        params:
            study=plan.study.name,
        message:
            f"Make the report of {plan.study.name}"
        shell:
            "fsage report {params.study:q}"

    rule:
        name:
            plan.study.name
        input:
            records_of(plan),
            str(plan.results.report / "index.html"),
        params:
            study=plan.study.name,
        message:
            f"Compare the records of {plan.study.name} with its plan"
        shell:
            "fsage conclude {params.study:q}"
