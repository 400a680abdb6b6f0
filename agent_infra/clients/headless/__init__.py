"""Clients without a session: how each is started for one step, how its stream is understood, whether it can work."""
