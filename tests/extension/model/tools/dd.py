"""dd, of GNU coreutils."""

from fsage.model.tools import Tool

TOOL = Tool(("--version",), r"dd \(coreutils\) ")
