"""What a cell says of the kernel and the mount under which it is measured."""
