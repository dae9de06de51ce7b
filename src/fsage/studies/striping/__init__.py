"""Files and databases in static and dynamic layouts of stripes."""
