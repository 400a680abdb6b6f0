"""agent-infra makes coding agents earn their commits."""

__version__ = "0.1.0"
