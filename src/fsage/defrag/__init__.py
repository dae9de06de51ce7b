"""Looking at how fragmented existing files are, and defragmenting one's own data without losing any."""
