#!/bin/sh
# agent-infra shim 1
# Written by `agent-infra init`, which overwrites edits; `agent-infra uninstall` puts back the hook that lay here.
# It decides nothing. It finds the repository, the hook that was here before, and the program that judges.
agent_infra_hook=@HOOK@
agent_infra_vetoes=@VETOES@
agent_infra_installed=@COMMON_DIR@
agent_infra_program=@PROGRAM@
set +e +f +u # a shell may inherit these from its environment

# The repository is the one whose hooks folder holds this file: a copied or moved repository uses its own state.
# Only where the folder says nothing, the place that was written in at installation counts.
agent_infra_common=${0%/*}
agent_infra_common=${agent_infra_common%/moved}
case /$agent_infra_common in
    */hooks) agent_infra_common=${agent_infra_common%hooks}. ;;
    *) agent_infra_common=/dev/null ;;
esac
agent_infra_common=${agent_infra_common%/.}
# our own folder in it has objects too, those of the snapshots, but no refs
[ -d "$agent_infra_common/refs" ] || agent_infra_common=${agent_infra_common%/agent-infra}
[ -d "$agent_infra_common/objects" ] || agent_infra_common=$agent_infra_installed
if [ ! -d "$agent_infra_common/objects" ]; then
    printf '%s\n' "agent-infra: $agent_infra_hook: cannot tell which repository this is: neither the folder of $0" \
        "  nor $agent_infra_installed is one; run \`agent-infra init\` in it, or remove $0" >&2
    exit "$agent_infra_vetoes"
fi
agent_infra_state=$agent_infra_common/agent-infra

# What guards, without a process. A folder that can't be read may hide a guard.
agent_infra_look() {
    agent_infra_tasks=
    for agent_infra_guard in "$agent_infra_state"/guards/*; do
        if [ -e "$agent_infra_guard" ] || [ -h "$agent_infra_guard" ]; then
            agent_infra_tasks="$agent_infra_tasks ${agent_infra_guard##*/}"
        fi
    done
    if [ -z "$agent_infra_tasks" ]; then
        for agent_infra_guard in "$agent_infra_state" "$agent_infra_state/guards"; do
            if [ -e "$agent_infra_guard" ] || [ -h "$agent_infra_guard" ]; then
                [ -d "$agent_infra_guard" ] && [ -r "$agent_infra_guard" ] && [ -x "$agent_infra_guard" ] ||
                    agent_infra_tasks=" (unreadable: $agent_infra_guard)"
            fi
        done
    fi
}

# git asks about every ref that it moves, stash and tags too. Judged is only a prepared transaction that names HEAD or a
# branch while something guards. Then this shell reads the lines, since the earlier hook must get them as well:
# agent_infra_said is for that one, agent_infra_lines for the program.
agent_infra_moved=$agent_infra_state/hooks/moved/$agent_infra_hook
case $0 in
    */agent-infra/hooks/*)
        # our folder took the place of another, where git looked before; a relative one starts here, as it does for git
        if [ -f "${0%/*}/previous" ]; then
            IFS= read -r agent_infra_moved <"${0%/*}/previous"
            agent_infra_moved=$agent_infra_moved/$agent_infra_hook
        fi
        ;;
esac
agent_infra_feed=
agent_infra_said=
agent_infra_lines=
agent_infra_break='
'
if [ "$agent_infra_hook" = reference-transaction ]; then
    agent_infra_feed=given
    agent_infra_look
    [ "$1" = prepared ] || agent_infra_vetoes=0
    case $1${agent_infra_tasks:+ guarded} in
        "prepared guarded")
            while IFS= read -r agent_infra_line || [ -n "$agent_infra_line" ]; do
                [ ! -f "$agent_infra_moved" ] ||
                    agent_infra_said=$agent_infra_said${agent_infra_said:+$agent_infra_break}$agent_infra_line
                case ${agent_infra_line##* } in
                    [Hh][Ee][Aa][Dd] | [Rr][Ee][Ff][Ss]/[Hh][Ee][Aa][Dd][Ss]/* | main-worktree/* | worktrees/*)
                        agent_infra_lines=$agent_infra_lines${agent_infra_lines:+$agent_infra_break}$agent_infra_line
                        ;;
                esac
            done
            ;;
        "committed guarded")
            # something that git has just done is to be recorded
            for agent_infra_guard in "$agent_infra_state"/moves/*; do
                [ ! -e "$agent_infra_guard" ] || agent_infra_lines=moves
            done
            ;;
    esac
fi

# Is evidence to be pushed? Only the program reads the settings; here it is enough that they may say so. What git says
# is read by this shell only where the earlier hook must get it as well.
if [ "$agent_infra_hook" = pre-push ]; then
    agent_infra_tasks=
    for agent_infra_guard in "$agent_infra_common/../.agents/config.toml" .agents/config.toml; do
        [ -f "$agent_infra_guard" ] && [ -r "$agent_infra_guard" ] || continue
        while IFS= read -r agent_infra_line || [ -n "$agent_infra_line" ]; do
            case $agent_infra_line in
                '#'*) ;;
                *push*true*) agent_infra_tasks=" (evidence.push)" ;;
            esac
        done <"$agent_infra_guard"
    done
    if [ -n "$agent_infra_tasks" ] && [ -f "$agent_infra_moved" ] && [ -x "$agent_infra_moved" ]; then
        agent_infra_feed=given
        while IFS= read -r agent_infra_line || [ -n "$agent_infra_line" ]; do
            agent_infra_lines=$agent_infra_lines${agent_infra_lines:+$agent_infra_break}$agent_infra_line
        done
        agent_infra_said=$agent_infra_lines
    fi
fi

# The hook that was here before goes first. One that leads back to this file is not run again inside itself.
agent_infra_code=0
if [ -f "$agent_infra_moved" ] && [ -x "$agent_infra_moved" ] &&
    [ "${AGENT_INFRA_WITHIN-}" != "$PWD $agent_infra_hook" ]; then
    if [ -n "$agent_infra_said" ]; then
        AGENT_INFRA_WITHIN="$PWD $agent_infra_hook" "$agent_infra_moved" "$@" <<EOF
$agent_infra_said
EOF
    else
        AGENT_INFRA_WITHIN="$PWD $agent_infra_hook" "$agent_infra_moved" "$@"
    fi
    agent_infra_code=$?
    if [ "$agent_infra_code" -ne 0 ] && [ "$agent_infra_vetoes" -ne 0 ]; then exit "$agent_infra_code"; fi
fi

# Nothing to be judged: done, without a process.
if [ -n "$agent_infra_feed" ]; then
    [ -n "$agent_infra_lines" ] || exit "$agent_infra_code"
else
    [ "$agent_infra_hook" = pre-push ] || agent_infra_look
    [ -n "$agent_infra_tasks" ] || exit "$agent_infra_code"
fi

agent_infra_tried="${AGENT_INFRA:+$AGENT_INFRA, }$agent_infra_program, agent-infra on PATH"
if [ -n "${AGENT_INFRA-}" ] && [ -f "$AGENT_INFRA" ] && [ -x "$AGENT_INFRA" ]; then
    agent_infra_program=$AGENT_INFRA
elif [ ! -f "$agent_infra_program" ] || [ ! -x "$agent_infra_program" ]; then
    agent_infra_program=agent-infra
fi
if command -v "$agent_infra_program" >/dev/null 2>&1; then
    if [ -n "$agent_infra_feed" ]; then
        "$agent_infra_program" gate "$agent_infra_hook" --common-dir "$agent_infra_common" "$@" <<EOF
$agent_infra_lines
EOF
    else
        "$agent_infra_program" gate "$agent_infra_hook" --common-dir "$agent_infra_common" "$@"
    fi
    agent_infra_answer=$?
    case $agent_infra_answer in
        0) exit "$agent_infra_code" ;;
        126 | 127) ;; # it is there, but it can't be started
        *) exit "$agent_infra_answer" ;;
    esac
fi
if [ "$agent_infra_hook" = pre-push ]; then
    printf '%s\n' "agent-infra: pre-push: the settings may ask for evidence (evidence.push), but the program was not found" \
        "  looked for: $agent_infra_tried" \
        "  way on: install agent-infra again (or set AGENT_INFRA to its path), then push again" \
        "  way out: git push --no-verify, which asks no pre-push hook and pushes no evidence" >&2
    exit "$agent_infra_vetoes"
fi
printf '%s\n' "agent-infra: $agent_infra_hook: guarded by$agent_infra_tasks, but the program that judges was not found" \
    "  looked for: $agent_infra_tried" \
    "  way on: install agent-infra again (or set AGENT_INFRA to its path), then repeat this command" \
    "  way out: agent-infra orchestrate end TASK --reason WORD" \
    "  last resort, by hand: remove the task's file from $agent_infra_state/guards" >&2
exit "$agent_infra_vetoes"
