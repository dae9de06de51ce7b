"""The layout of any device, image, mount or saved text: `fsage evidence`; what it tells is the agent's evidence."""
