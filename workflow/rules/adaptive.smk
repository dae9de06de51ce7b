"""Takes the claim; gives all missing records of a study in one job: measured, or skipped with what they must be.

In place of states.smk where a run has a budget (`budget`, `precision`): what is measured next depends on what was
measured before, so the order is not the DAG's. A job that was stopped goes on where it was.
"""

for number, plan in enumerate(PLANS):
    if plan.missing:

        rule:
            name:
                f"adaptive_{plan.study.name}{on(plan.target.name)}"
            input:
                ancient(str(plan.results.claim)),
            output:
                [str(plan.results.record(name, cell.name)) for name, cells in plan.missing.items() for cell in cells],
            priority: 10**8 - 10**6 * number
            resources:
                **allocation_of(plan),
                **alone(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
            message:
                f"Measure what says most of {sum(map(len, plan.missing.values()))} cells"
            shell:
                "fsage --target={params.target:q} adaptive {params.study:q}"
