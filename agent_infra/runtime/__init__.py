"""Starts children: the driver of a task's steps and the protocol of what it starts."""
