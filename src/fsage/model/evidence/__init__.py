"""How the layout of a store is told, counted and read from the texts of the programs that tell of it."""
