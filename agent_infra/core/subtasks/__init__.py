"""A task too big for one agent: its split, the order of the parts, and what the parts' evidence amounts to."""
