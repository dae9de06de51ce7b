"""blastn, of BLAST+."""

from fsage.model.tools import Tool

TOOL = Tool(("-version",), "blastn: ", "blast.sif")
