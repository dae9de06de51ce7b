"""What `fsage evidence` adds to a layout (fsage.layouts): a page, a saved list, a command between two looks."""
