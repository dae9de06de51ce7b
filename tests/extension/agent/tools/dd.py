"""dd, of GNU coreutils."""

from fsage.agent.tools import Tool

TOOL = Tool(("--version",), r"dd \(coreutils\) ")
