"""Takes the claim; gives, state by state in planned order, the state's evidence and its missing records.

Only what is missing has a rule: a record that exists cannot be measured again, whatever was edited.
"""

for number, plan in enumerate(CALL.plans):
    for position, name in enumerate(plan.missing):
        state = plan.states[name]
        priority_of_state = 10**8 - 10**6 * number - 2 * position

        # lint: container: the environment is ./run's, made from the lock
        rule establish_state:
            name:
                f"{state.last_step}_{plan.study.name}_{name}{on(plan.target.name)}"
            input:
                claim=ancient(str(plan.results.claim)),
            output:
                evidence=str(plan.results.state(name)),
            log:
                str(plan.results.log(f"establish_{name}")),
            benchmark:
                str(plan.results.benchmark(f"establish_{name}"))
            priority: priority_of_state
            resources:
                **alone(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
                state=name,
                playbooks=state.playbooks,
            message:
                f"Bring the target into state {name}"
            shell:
                "fsage --target={params.target:q} play {params.study:q} {params.state:q} {params.playbooks} evidence.yml"

        # No benchmark: Snakemake then looks at all processes twice a second, on the machine that is measured.
        # lint: container: the environment is ./run's, made from the lock
        rule measure_cells:
            name:
                f"measure_{plan.study.name}_{name}{on(plan.target.name)}"
            input:
                evidence=ancient(str(plan.results.state(name))),
            output:
                records=[str(plan.results.record(name, cell.name)) for cell in plan.missing[name]],
            log:
                str(plan.results.log(f"measure_{name}")),
            priority: priority_of_state + 1
            resources:
                **allocation_of(plan),
                **alone(plan),
            params:
                target=plan.target.name,
                study=plan.study.name,
                state=name,
            message:
                # measure.yml brings a state that was lost since about again, by the same roles
                f"Measure {len(plan.missing[name])} cells in state {name}"
            shell:
                "fsage --target={params.target:q} play {params.study:q} {params.state:q} tune_clients.yml measure.yml"
