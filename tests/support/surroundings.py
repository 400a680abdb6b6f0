"""A repository with branches, a patch and a remote to play with, and runs in it: states for `lifecycle`."""

from tests.support.lifecycle import STATES, TASK, World


def linked(world: World, name: str, *options: str) -> World:
    """A worktree of the same repository beside the first one."""
    path = world.root.parent / name
    world.git("worktree", "add", "-q", *options, str(path))
    return World(path, world.env)


def published(world: World) -> str:
    """Somebody else pushes a commit on main to the remote."""
    clone = World(world.root.parent / "clone", world.env)
    world.git("clone", "-q", str(world.root.parent / "origin.git"), str(clone.root))
    clone.write("README.md", "# published\n")
    clone.git("commit", "-qam", "published")
    clone.git("push", "-q")
    return clone.head


def _surrounded(world: World) -> None:
    """Two commits on main; `side` ahead of it, `fork` beside that, `../side.patch`; origin has main."""
    world.write("second.txt", "second\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "second")
    other = linked(world, "aside", "-b", "side")
    other.write("README.md", "# side\n")
    other.write("side.txt", "side\n")
    other.git("add", "-A")
    other.git("commit", "-qm", "side")
    (world.root.parent / "side.patch").write_text(other.git("format-patch", "-1", "--stdout").out)
    other.git("checkout", "-qb", "fork", "HEAD~")
    other.write("fork.txt", "fork\n")
    other.git("add", "-A")
    other.git("commit", "-qm", "fork")
    world.git("worktree", "remove", str(other.root))
    origin = world.root.parent / "origin.git"
    world.git("init", "-q", "--bare", "-b", "main", str(origin))
    world.git("remote", "add", "origin", str(origin))
    world.git("push", "-q", "-u", "origin", "main")
    world.git("gc", "-q")


def _coding(world: World) -> None:
    world.make_task()
    world.begin()
    world.step()
    world.open_step()


def _authorized(world: World) -> None:
    (world.folder() / "code.md").write_text("# code\n\n- **Artifact File**: `code.md`\n\nDone.\n\n$ true\n")
    world.fix()
    assert world.close_step() == "running"
    world.to_commit()
    world.open_step()


def earned(world: World) -> None:
    """The authorized commit made, its step advanced."""
    world.cli("commit", TASK, "-m", "fix: sum")
    assert world.close_step() == "completed"


# a run in the middle of its code step; its commit authorized; that commit made and the run over
STATES |= {
    "surrounded": ("installed", _surrounded),
    "coding": ("surrounded", _coding),
    "authorized": ("coding", _authorized),
    "earned": ("authorized", earned),
    "done": ("opened", earned),
}
