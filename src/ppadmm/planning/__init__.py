"""What to expect of a run before any record is touched."""
