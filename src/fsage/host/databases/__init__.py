"""Databases that states hold and cells ask: BLAST's and SQLite's."""
