"""What drives agents: the only home of processes, sockets and clocks."""
