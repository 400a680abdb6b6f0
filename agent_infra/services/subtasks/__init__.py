"""A task's subtasks: what is planned, what each child left, and how results become the parent's."""
