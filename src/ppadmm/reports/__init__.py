"""Tables, files and pictures of finished runs."""
