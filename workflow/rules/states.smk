"""Takes the claim; gives, in planned order, each state's manifest: which records its cells have, why others have none.

One job brings the target into a state and measures there, by one call of ansible-playbook; or it visits several states
(`batch_states`), or all of a study within a budget. Records are nobody's output: what the store has is not measured
again, whatever was edited. What is missing stands in the run's note, which is newer than any manifest.
"""

for plan, priority, job in CALL.jobs():

    # No benchmark: Snakemake then looks at all processes twice a second, on the machine that is measured.
    # lint: container: the environment is ./run's, made from the lock
    rule visit_states:
        name:
            f"{job.name}{on(plan.target.name)}"
        input:
            claim=ancient(str(plan.results.claim)) if job.cells else [],
            missing=os.environ[runs.NOTE],
        output:
            manifests=[str(plan.manifest(name)) for name in job.states],
        log:
            [str(plan.results.log(f"visit_{name}")) for name in job.states],
        priority: priority
        localrule: not job.cells
        resources:
            **(allocation_of(plan) if job.cells else {}),
            **(resources_of(plan) if job.cells else {}),
        params:
            target=plan.target.name,
            words=job.words,
        message:
            job.what
        shell:
            "fsage --target={params.target:q} {params.words:q}"
