"""Takes a study's records; gives its report and tables, and the study's name as a target that compares records with plan."""

REPORT_CODE = sorted(
    str(path)
    for pattern in ("report/**/*.py", "report/templates/*", "figures/*.py", "dataset/*.py", "statistics/*.py")
    for path in Path("src/fsage").glob(pattern)
) + ["src/fsage/conclusion.py"]


report: "../report/workflow.rst"


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
            report(
                str(plan.results.report / "index.html"),
                caption="../report/study.rst",
                category=plan.study.title,
                labels={"what": "the whole report"},
            ),
            str(plan.results.report / "records.parquet"),
            report(
                str(plan.results.report / "records.csv"),
                caption="../report/table.rst",
                category=plan.study.title,
                labels={"what": "all records"},
            ),
            report(
                directory(str(plan.results.report / "figures")),
                patterns=["{figure}.svg"],
                caption="../report/figure.rst",
                category=plan.study.title,
                subcategory="Figures",
                labels={"what": "{figure}"},
            ),
        localrule: True
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
        localrule: True
        params:
            study=plan.study.name,
        message:
            f"Compare the records of {plan.study.name} with its plan"
        shell:
            "fsage conclude {params.study:q}"
