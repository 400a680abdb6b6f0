"""What the events of a client mean for the runs of its worktree: the hooks keep the books, agents only work."""
