"""The programs of BLAST+ that a search and its database take."""

from fsage.model.tools import Tool

TOOLS = {
    "blastn": Tool(("-version",), "blastn: ", "blast.sif"),
    "makeblastdb": Tool(("-version",), "makeblastdb: ", "blast.sif"),
}
