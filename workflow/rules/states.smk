"""Takes the claim; gives, state by state in planned order, the state's evidence and its missing records.

One job brings the target into a state and measures there, by one call of ansible-playbook. A state that was reached
before has its evidence. Only what is missing has a rule: a record that exists cannot be measured again, whatever was
edited.
"""

for number, plan in enumerate(CALL.plans):
    for position, name in enumerate(plan.missing):
        step = plan.states[name].last_step if name in plan.unreached else "measure"

        # No benchmark: Snakemake then looks at all processes twice a second, on the machine that is measured.
        # lint: container: the environment is ./run's, made from the lock
        rule visit_state:
            name:
                f"{step}_{plan.study.name}_{name}{on(plan.target.name)}"
            input:
                claim=ancient(str(plan.results.claim)),
            output:
                evidence=[str(plan.results.state(name))] if name in plan.unreached else [],
                records=[str(plan.results.record(name, cell.name)) for cell in plan.missing[name]],
            log:
                str(plan.results.log(f"visit_{name}")),
            priority: 10**8 - 10**6 * number - position
            resources:
                **allocation_of(plan),
                **exclusive_resources(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
                state=name,
            message:
                # the same roles rebuild a state that was lost since
                f"{'Bring the target into' if name in plan.unreached else 'Go back to'} state {name}, "
                f"and measure {len(plan.missing[name])} cells"
            shell:
                "fsage --target={params.target:q} visit {params.study:q} {params.state:q}"
