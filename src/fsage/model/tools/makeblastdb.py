"""makeblastdb, of BLAST+."""

from fsage.model.tools import Tool

TOOL = Tool(("-version",), "makeblastdb: ", "blast.sif")
