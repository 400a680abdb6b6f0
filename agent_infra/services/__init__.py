"""Use cases: load, decide in `core`, save, report."""
