"""Takes nothing; gives the copy of each target's claim: its capacity, calibration and tools."""

for name in TARGETS:

    rule:
        name:
            f"claim_{name}"
        output:
            str(Results(CALL.results, name, "").claim),
        priority: 10**9
        localrule: True  # asks the hosts for a moment, once
        resources:
            **{sharing.of_target(name): 1},
            **{sharing.resource(part): 1 for part in SHARED[name]},
        params:
            target=name,
            partition=lambda wildcards, resources: resources.get("slurm_partition", ""),
        message:
            f"Claim and calibrate target {name}"
        shell:
            "fsage --target={params.target:q} claim --partition={params.partition:q}"
