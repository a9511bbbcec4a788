"""Engines on a Ray cluster: tasks for sweeps, an actor for each agent."""
