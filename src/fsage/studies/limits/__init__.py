"""What can still be had on a layout, and what fails first while the rest of it fills."""
