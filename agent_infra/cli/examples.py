"""The examples in the help of every command, by its words; `docs/cli.md` shows them too.

They are text for people, and a test reads each of them with the parser of its command.
"""

from collections.abc import Mapping

_CLAUDE = "--client claude-code --native-agent agent-infra-lifecycle-executor --child-id child-1"

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": ("init", 'task create --title "add() must add"', "orchestrate begin 1", "verify main..HEAD"),
    "task": ('task create --title "add() must add"', "task ls", "task show 1"),
    "orchestrate": ("orchestrate begin 1", "orchestrate prepare 1 --client claude-code", "orchestrate status 1"),
    "gate": ("gate check 1", 'gate allow --reason "hotfix, reviewed by phone"'),
    "init": ("init", "init --yes", "init --check"),
    "uninstall": ("uninstall",),
    "doctor": ("doctor", "doctor --json"),
    "task create": (
        'task create --title "add() must add"',
        'task create --title "Speed up the import" --type refactor --priority High --flow standard',
        "task create --from task.json --json",
    ),
    "task ls": ("task ls", "task ls --all", "task ls --blocked --json"),
    "task show": ("task show 1", "task show TASK-20260101-120000 --json"),
    "task files": ("task files 1", "task files"),
    "task cat": ("task cat 1 plan-r2", "task cat 3", "task cat review-code.md --task 1"),
    "task grep": ('task grep "timeout"', "task grep -i Timeout --current", "task grep TODO --task 1 --json"),
    "task log": ("task log 1", "task log --json"),
    "task status": ("task status 1", "task status --json"),
    "task validate": ("task validate 1", "task validate --json"),
    "task edit": (
        "task edit 1 --set priority=High --set target_date=2026-01-31",
        "task edit 1 --unset target_date",
    ),
    "task check": ("task check 1 -- pytest -q", "task check --timeout 600 1 -- make test"),
    "task decide": ('task decide --item HD-1 --result "keep the old name" 1',),
    "task validate-manual": ('task validate-manual --result "tried on a phone, fine" 1',),
    "orchestrate begin": ("orchestrate begin 1", "orchestrate begin 1 --flow streamlined --max-steps 12"),
    "orchestrate route": ("orchestrate route 1",),
    "orchestrate status": ("orchestrate status 1",),
    "orchestrate brief": ("orchestrate brief 1 --text",),
    "orchestrate prepare": (
        "orchestrate prepare 1 --client claude-code",
        "orchestrate prepare 1 --client codex --headless",
    ),
    "orchestrate activate": (f"orchestrate activate 1 {_CLAUDE} --parent-id session-1 --spawn-mode fresh",),
    "orchestrate validate": ("orchestrate validate 1 --stage plan --round 2 --artifact plan-r2.md --role executor",),
    "orchestrate complete": (
        "orchestrate complete 1 --agent claude",
        "orchestrate complete 1 --stage code --round 1 --artifact code.md --agent claude",
    ),
    "orchestrate seal": (f"orchestrate seal 1 {_CLAUDE}",),
    "orchestrate advance": ("orchestrate advance 1",),
    "orchestrate pause": ('orchestrate pause 1 --code WAITING --message "the API key is missing"',),
    "orchestrate abandon": (
        'orchestrate abandon 1 --reason "the child hangs"',
        'orchestrate abandon 1 --reason "it wrote elsewhere" --restore',
    ),
    "orchestrate end": ('orchestrate end 1 --reason "not wanted any more"',),
    "orchestrate reopen": ('orchestrate reopen 1 --stage code --reason "a case is missing"',),
    "orchestrate repair": ("orchestrate repair 1",),
    "run": ("run 1 --client scripted --script steps.json",),
    "review": ("review 1",),
    "work": ("work 1",),
    "commit": ('commit 1 -m "Make add() add"',),
    "subtasks": ("subtasks plan 1", "subtasks run 1 --parallel 4", "subtasks status 1"),
    "subtasks plan": ("subtasks plan 1", "subtasks plan 1 --json"),
    "subtasks run": ("subtasks run 1", "subtasks run 1 --parallel 4 --engine codex"),
    "subtasks resume": ("subtasks resume 1", "subtasks resume 1 --retry failed,blocked"),
    "subtasks status": ("subtasks status 1 --json",),
    "subtasks trail": ("subtasks trail 1",),
    "subtasks clean": ("subtasks clean 1",),
    "overlap": ("overlap", "overlap --json"),
    "verify": ("verify", "verify main..HEAD", "verify origin/main..HEAD --json"),
    "gate pre-commit": ("gate pre-commit --common-dir .git",),
    "gate pre-merge-commit": ("gate pre-merge-commit --common-dir .git",),
    "gate commit-msg": ("gate commit-msg --common-dir .git .git/COMMIT_EDITMSG",),
    "gate post-commit": ("gate post-commit --common-dir .git",),
    "gate pre-rebase": ("gate pre-rebase --common-dir .git main",),
    "gate reference-transaction": ("gate reference-transaction --common-dir .git prepared",),
    "gate check": ("gate check 1", 'gate check 1 -m "fix: add the numbers" --json'),
    "gate allow": ('gate allow --reason "hotfix, reviewed by phone"',),
    "completion": (
        'completion bash  # in ~/.bashrc: eval "$(agent-infra completion bash)"',
        'completion zsh   # in ~/.zshrc: eval "$(agent-infra completion zsh)"',
        "completion fish  # in config.fish: agent-infra completion fish | source",
    ),
}
