"""Commands: parse argv, call one service, render; nothing else reads argv, environment or the current folder."""
