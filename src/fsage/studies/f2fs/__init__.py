"""F2FS, whose blocks lie where its log writes them: the requests of reading files in pieces and whole ones, counted."""
