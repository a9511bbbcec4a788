"""Links between peers by Eclipse Zenoh."""
