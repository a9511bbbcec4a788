"""Many simulated runs: sweeps, comparisons, searches, the paper's figures."""
