"""Takes nothing; gives the copy of the target's claim: its capacity, calibration and tools."""


rule claim_target:
    output:
        f"{RESULTS}/targets/{os.environ['FSAGE_TARGET']}.json",
    priority: 10**9
    localrule: True  # asks the hosts for a moment, once
    resources:
        target=1,
    params:
        partition=lambda wildcards, resources: resources.get("slurm_partition", ""),
    message:
        "Claim and calibrate the target"
    shell:
        "fsage claim --partition={params.partition:q}"
