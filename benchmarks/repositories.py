"""Repositories to measure in: generated from a fixed seed, so that two machines measure the same files."""

import os
import random
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SEED = 7
_MEAN_BYTES = 4000
# nothing that is prepared here shall ask a hook: only what is measured does
_SETTINGS = ("-c", "user.name=Bench", "-c", "user.email=bench@example.com", "-c", "core.hooksPath=/dev/null")


def git(cwd: Path, *args: str, stdin: bytes | None = None) -> str:
    """The output of one git command, which has to work."""
    done = subprocess.run(["git", *_SETTINGS, *args], cwd=cwd, input=stdin, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def generate(folder: Path, files: int) -> None:
    """A repository with one packed commit of `files` small text files, three folders deep, all of them checked out."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, value in (("user.name", "Bench"), ("user.email", "bench@example.com"), ("gc.auto", "0")):
        git(folder, "config", name, value)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=folder, stdin=subprocess.PIPE) as importer:
        if importer.stdin is None:
            raise RuntimeError("git fast-import has no stdin")
        importer.stdin.writelines(_stream(files))
        importer.stdin.close()
    if importer.returncode:
        raise RuntimeError(f"git fast-import ended with {importer.returncode}")
    git(folder, "reset", "-q", "--hard", "main")


def _stream(files: int) -> Iterator[bytes]:
    """What `git fast-import` reads: one commit."""
    rnd = random.Random(_SEED)  # noqa: S311 - the same files each time, no secret
    words = [rnd.randbytes(4).hex() for _ in range(4000)]
    yield b"commit refs/heads/main\ncommitter Bench <bench@example.com> 1767225600 +0000\ndata 5\nfiles\n"
    for number in range(files):
        size = int(rnd.expovariate(1 / _MEAN_BYTES)) + 20
        data = f"# {number}\n{' '.join(rnd.choices(words, k=max(1, size // 9)))}\n".encode()
        yield f"M 100644 inline {_name(number)}\ndata {len(data)}\n".encode() + data + b"\n"


def _name(number: int) -> str:
    return f"pkg{number % 100:02d}/mod{number // 100 % 10}/sub{number // 1000 % 10}/file{number:06d}.py"


def change(folder: Path, files: int, *, changed: int, new: int) -> None:
    """Give `changed` tracked and `new` untracked files a content that no snapshot has seen."""
    token = secrets.token_hex(8)
    step = max(1, files // max(1, changed))
    for number in list(range(0, files, step))[:changed]:
        path = folder / _name(number)
        data = path.read_bytes()
        path.write_bytes(data[: data.index(b"\n") + 1] + f"# {token}\n".encode())
    for number in range(new):
        path = (folder / _name(number * 37 % files)).with_name(f"new_{number}.txt")
        path.write_text(token * 100 + str(number), encoding="utf-8")


def clean(folder: Path) -> None:
    """Put everything back as it was committed, with an index whose stat data count."""
    git(folder, "clean", "-fdq")
    git(folder, "reset", "-q", "--hard")
    os.sync()
