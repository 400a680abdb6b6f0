"""Programs of others for tests, fetched through their own package managers; a test that can't have them skips."""

import shutil
import subprocess
from pathlib import Path

import pytest

_LIMIT = 90  # seconds


def fetched(folder: Path, *argv: str) -> None:
    """Run a package manager, or skip."""
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is missing")
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, check=False, timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{argv[0]} got no answer")
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        pytest.skip(f"{argv[0]} could not fetch it: {said[-1] if said else done.returncode}")


def npm(folder: Path, *packages: str) -> Path:
    """The programs of packages from npm."""
    (folder / "package.json").write_text('{"private": true}\n')
    fetched(folder, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline", *packages)
    return folder / "node_modules" / ".bin"
