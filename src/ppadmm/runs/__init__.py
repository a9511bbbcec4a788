"""One run: its specification, its federation, its result, its folder and its report."""
