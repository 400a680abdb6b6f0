"""The commit gate: what git may write while a run guards, and the commit step itself."""
