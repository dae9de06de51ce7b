"""The verbs of the agent that are a few lines on top of the layers below."""
