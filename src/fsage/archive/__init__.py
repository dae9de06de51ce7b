"""Results that travel: exported with all that a report is made from, read again, with stand-ins for names."""
