"""Records larger than memory: read in batches, kept in blocks."""
