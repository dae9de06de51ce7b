"""fsage: what does age do to a file system?

    snakemake quickstart            a small study on a target of its own
    snakemake -n series1            what a study would do
    snakemake --config target=NAME  on the target of inventories/NAME

A study is a file in config/; its name is a target here. Paths and order are the DAG's business; what a study
means is the package's (src/fsage).
"""


include: "workflow/rules/plan.smk"
include: "workflow/rules/claim.smk"
include: f"workflow/rules/{HOW}.smk"
include: "workflow/rules/report.smk"
