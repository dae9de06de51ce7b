"""What the axes of several recipes are made of: the notation of states, how filler is laid, striping patterns."""
