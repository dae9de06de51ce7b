# `snakemake STUDY` from the root; the workflow itself is in workflow/Snakefile.
include: "workflow/Snakefile"
