"""Where the files are that travel with the program (shims, templates, texts for agents), in a checkout and in a wheel.

It finds them; it reads nothing and knows nothing about their contents.
"""

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent
# a wheel carries them inside the package; it is looked in first, since a folder `hooks` beside an installed
# package would be somebody else's
_ROOTS = (_PACKAGE / "data", _PACKAGE.parent)


def resource(folder: Literal["assets", "hooks", "templates"], name: str) -> Path:
    """The packaged file `name`, so that it can be rendered or installed.

    Args:
        folder: `hooks`, `templates`, or `assets` for what clients' agents read.
        name: relative to the folder, with "/".

    Raises:
        FileNotFoundError: the installation is incomplete; no rule of ours was broken.
    """
    for root in _ROOTS:
        path = root / folder / name
        if path.is_file():
            return path
    looked = ", ".join(str(root / folder) for root in _ROOTS)
    raise FileNotFoundError(f"packaged file {name} is missing; looked in {looked}; install agent-infra again")
