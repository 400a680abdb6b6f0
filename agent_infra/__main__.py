"""Entry point: looks at argv with the standard library only; everything else is imported when a verb needs it."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.platform == "win32":
        sys.stderr.write("agent-infra runs on Linux and macOS; Windows is not supported (WSL is Linux)\n")
        sys.exit(1)
    if sys.argv[1:] in (["--version"], ["version"]):
        from agent_infra import __version__

        sys.stdout.write(f"agent-infra {__version__}\n")
        sys.exit(0)
    if sys.argv[1:2] == ["hook"] or sys.argv[1:3] == ["orchestrate", "hook"]:
        from agent_infra.clients import hook

        if (client := hook.client_of(sys.argv[1:])) is not None:
            sys.exit(hook.run(client))
    from agent_infra.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
