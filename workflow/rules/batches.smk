"""Takes the claim; gives, in one job for several states, each state's evidence and its missing records.

In place of states.smk where a job costs much to start (`batch_states`): one process visits state after state in
planned order. A record is published when its state is measured, so a stopped batch resumes where it was.
"""

for number, plan in enumerate(CALL.plans):
    for position, states in enumerate(plan.batches(BATCH_STATES)):

        # No benchmark: Snakemake then looks at all processes twice a second, on the machine that is measured.
        # lint: log: each state has the logs of its playbooks
        # lint: container: the environment is ./run's, made from the lock
        rule visit_states:
            name:
                f"visit_{plan.study.name}_{position + 1}{on(plan.target.name)}"
            input:
                claim=ancient(str(plan.results.claim)),
            output:
                evidence=[str(plan.results.state(name)) for name in states if name in plan.unreached],
                records=[str(plan.results.record(name, cell.name)) for name in states for cell in plan.missing[name]],
            priority: 10**8 - 10**6 * number - position
            resources:
                **allocation_of(plan),
                **exclusive_resources(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
                states=states,
            message:
                f"Visit {len(states)} states, {states[0]} to {states[-1]}: "
                f"{sum(len(plan.missing[name]) for name in states)} cells"
            shell:
                "fsage --target={params.target:q} visit {params.study:q} {params.states:q}"
