"""What is installed in a project for agent clients: which files and entries, how they get there, change and go away."""
