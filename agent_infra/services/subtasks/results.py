"""How children's results become the parent's: the commit they start from, the merge in memory, the parent's files.

HEAD never moves. `refs/agent-infra/results/<task>` leads from the base over every merged child; a child is done only
when its commit is reachable from there.
"""

import os
from dataclasses import dataclass

from agent_infra.core.run import RunStatus, State
from agent_infra.errors import ErrorCode, RefusedError
from agent_infra.git import merging
from agent_infra.git.merging import Merged
from agent_infra.git.refs import is_ancestor
from agent_infra.git.repo import Repo
from agent_infra.git.restore import restore
from agent_infra.git.snapshot import TaskFolder
from agent_infra.git.trees import TreeChange
from agent_infra.services import records
from agent_infra.services.context import Context, run_config
from agent_infra.stores.workspace import TaskPlace

RESULTS = "refs/agent-infra/results/"
CHILDREN = "refs/agent-infra/subtasks/"
LOST = "refs/agent-infra/lost/"


@dataclass(frozen=True)
class Results:
    """The results of one task.

    Attributes:
        repo: the parent's worktree.
    """

    context: Context
    place: TaskPlace
    state: State | None

    @property
    def ref(self) -> str:
        """Where the parent's result is."""
        return f"{RESULTS}{self.place.task_id}"

    @property
    def repo(self) -> Repo:
        """The repository."""
        return self.context.repo

    def child_ref(self, subtask_id: str) -> str:
        """Where a child's result is."""
        return f"{CHILDREN}{self.place.task_id}/{subtask_id}"

    @property
    def head(self) -> str | None:
        """The parent's result so far."""
        return merging.value_of(self.repo, self.ref)

    def product(self) -> str:
        """The parent's files as they are now, as a product tree in our own store."""
        exclude = (run_config(self.state) if self.state else self.context.config).snapshot.exclude
        captured = self.context.snapshotter.capture(
            TaskFolder(self.place.task_id, self.place.folder), exclude=exclude, keep=[]
        )
        return self.context.objects.product(captured)

    @property
    def has_run(self) -> bool:
        """Whether what the parent's files are now counts, or HEAD alone."""
        return self.state is not None and self.state.run.status != RunStatus.COMPLETED

    def base_tree(self) -> str:
        """HEAD's tree with the product paths that the run changed, in the repository's own store; never strangers."""
        parent = records.tree_of(self.context, self.repo.head().oid)
        if self.state is None or not self.has_run:
            return parent
        changes = self.context.objects.diff(self.state.run.baseline.tree, self.product())
        tree = self.context.objects.compose(parent, changes)
        self.context.objects.publish(tree)
        return tree

    def open(self, tree: str, since: str | None) -> str:
        """The commit that the first children start from: the result so far, brought up to the parent's present state.

        Args:
            tree: the present `base_tree`.
            since: the tree that the present one is compared with, to tell what changed beside the results.

        Raises:
            RefusedError: SUBTASK_MERGE_CONFLICT where results that the files lack contradict them.

        Side effects: objects; moves the result ref.
        """
        before = self.head
        head = self.repo.head().oid or ""
        if before is None:
            first = self._commit(tree, (head,), "Base of the subtasks")
            merging.move_ref(self.repo, self.ref, first, None)
            return first
        merged = merging.merge_trees(self.repo, ancestor=since or tree, ours=before, theirs=tree)
        if merged.tree is None:
            message = f"results of subtasks and your files both changed {', '.join(merged.conflicts)}; put one back"
            raise RefusedError(ErrorCode.SUBTASK_MERGE_CONFLICT, message)
        known = is_ancestor(self.repo, head, before, {})
        if known and merged.tree == self._tree(before):
            return before
        renewed = self._commit(merged.tree, (before,) if known else (before, head), "Base of the subtasks, renewed")
        merging.move_ref(self.repo, self.ref, renewed, before)
        return renewed

    def keep(self, subtask_id: str, *, base: str, tree: str, title: str) -> str:
        """Give a child's tree a commit and its ref.

        Side effects: objects; moves the child's ref.
        """
        commit = self._commit(tree, (base,), f"{subtask_id}: {title}")
        ref = self.child_ref(subtask_id)
        merging.move_ref(self.repo, ref, commit, merging.value_of(self.repo, ref))
        return commit

    def keep_lost(self, run_id: str, *, base: str, tree: str) -> str:
        """Keep the work of a child that was lost; the ref that leads to it.

        Side effects: objects; a ref.
        """
        ref = f"{LOST}{self.place.task_id}/{run_id}"
        commit = self._commit(tree, (base,), f"Work of {run_id}, whose end nobody saw")
        merging.move_ref(self.repo, ref, commit, merging.value_of(self.repo, ref))
        return ref

    def merge(self, subtask_id: str, *, commit: str, base: str) -> Merged:
        """Bring one child's commit into the result, in memory; a conflict changes nothing.

        Side effects: objects; moves the result ref where it could be merged.
        """
        before = self.head or base
        if self.has(commit):
            return Merged(self._tree(before))
        merged = merging.merge_trees(self.repo, ancestor=base, ours=before, theirs=commit)
        if merged.tree is not None:
            joined = self._commit(merged.tree, (before, commit), f"Merge subtask {subtask_id}")
            merging.move_ref(self.repo, self.ref, joined, before)
        return merged

    def has(self, commit: str) -> bool:
        """Whether the result reaches a child's commit."""
        head = self.head
        return head is not None and is_ancestor(self.repo, commit, head, {})

    def apply(self, applied: str) -> tuple[str, tuple[str, ...]]:
        """Give the parent's files what the results changed since `applied`.

        Returns:
            The result's tree, and the paths that were written.

        Raises:
            RefusedError: SUBTASK_MERGE_CONFLICT where a path is neither as it was nor as it shall be; nothing is
                written.

        Side effects: files of the parent's worktree; its index and HEAD stay as they are.
        """
        target = self._tree(self.head or applied)
        changes = self.context.objects.diff(applied, target)
        if not changes:
            return target, ()
        present = self.product()
        here = {change.path: change for change in self.context.objects.diff(present, target)}
        mine = {change.path: change for change in self.context.objects.diff(applied, present)}
        wanted = [change for change in changes if change.path in here]
        foreign = [change for change in wanted if change.path in mine]
        if foreign:
            message = f"your files {', '.join(change.name for change in foreign)} changed meanwhile; put them back"
            raise RefusedError(ErrorCode.SUBTASK_MERGE_CONFLICT, f"{message}, then `agent-infra subtasks resume`")
        goal = self.context.objects.compose(present, wanted)
        return target, restore(self.repo, self.context.objects, wanted=goal, present=present)

    def changes(self, base: str, tree: str) -> tuple[TreeChange, ...]:
        """What a child changed."""
        return self.context.objects.diff(self._tree(base), tree)

    def _tree(self, name: str) -> str:
        return self.repo.text("rev-parse", f"{name}^{{tree}}")

    def tree(self) -> str:
        """The tree of the result so far."""
        return self._tree(self.ref)

    def _commit(self, tree: str, parents: tuple[str, ...], message: str) -> str:
        return merging.commit_tree(self.repo, tree, parents, message, self.context.now())


def display(path: bytes) -> str:
    """A path as text."""
    return os.fsdecode(path)
