"""Takes the claim; gives all missing records of a study in one job: measured, or skipped with what they must be.

In place of states.smk where a run has a budget (`budget`, `precision`): what is measured next depends on what was
measured before, so the order is not the DAG's. A stopped job resumes where it was.
"""

for number, plan in enumerate(CALL.plans):
    if plan.missing:

        # No benchmark: Snakemake then looks at all processes twice a second, on the machine that is measured.
        # lint: log: each state has the logs of its playbooks
        # lint: container: the environment is ./run's, made from the lock
        rule measure_adaptively:
            name:
                f"adaptive_{plan.study.name}{on(plan.target.name)}"
            input:
                claim=ancient(str(plan.results.claim)),
            output:
                records=[
                    str(plan.results.record(name, cell.name)) for name, cells in plan.missing.items() for cell in cells
                ],
            priority: 10**8 - 10**6 * number
            resources:
                **allocation_of(plan),
                **exclusive_resources(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
            message:
                f"Measure what says most of {sum(map(len, plan.missing.values()))} cells"
            shell:
                "fsage --target={params.target:q} adaptive {params.study:q}"
