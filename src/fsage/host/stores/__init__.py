"""What a target's stores are made of: local file systems, made, mounted, told apart, their free space read."""
