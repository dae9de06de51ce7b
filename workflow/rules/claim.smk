"""Takes nothing; gives the copy of each target's claim: its capacity, calibration and tools."""

for name in CALL.targets:
    place = Results(CALL.results, name, "")

    # lint: container: the environment is ./run's, made from the lock
    rule claim_target:
        name:
            f"claim_{name}"
        output:
            claim=str(place.claim),
        log:
            str(place.log("claim")),
        benchmark:
            str(place.benchmark("claim"))
        priority: 10**9
        localrule: True  # asks the hosts for a moment, once
        resources:
            **resources.of_target(name, CALL.shared[name]),
        params:
            target=name,
            partition=lambda wildcards, resources: resources.get("slurm_partition", ""),
        message:
            f"Claim and calibrate target {name}"
        shell:
            "fsage --target={params.target:q} claim --partition={params.partition:q}"
