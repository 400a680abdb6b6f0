"""What history proves afterwards, offline."""
