"""What tests of the stores share."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def frozen() -> Iterator[Callable[[Path], None]]:
    """Makes a path immutable until the test is over, which stops root, too."""
    chattr = shutil.which("chattr")
    paths: list[Path] = []

    def freeze(path: Path) -> None:
        if chattr is None or subprocess.run([chattr, "+i", str(path)], capture_output=True, check=False).returncode:
            pytest.skip("no immutable files here")
        paths.append(path)

    try:
        yield freeze
    finally:
        for path in paths:
            subprocess.run([str(chattr), "-i", str(path)], check=False)
