"""What makes a database for BLAST: seeded sequences, and volumes of them."""
