"""What may be said of a run's privacy: claims, certificates, and their checks."""
