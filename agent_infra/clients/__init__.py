"""Agents: one module per client, the only place that knows that client's events, payloads and ways to be started."""
