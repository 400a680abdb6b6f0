#!/bin/sh
# agent-infra shim 1
# Written by `agent-infra init`; `agent-infra uninstall` removes it.
# git looks for hooks here; this one judges nothing and hands on to the folder where git looked before.
IFS= read -r agent_infra_previous <"${0%/*}/previous" || exit 0
agent_infra_previous=$agent_infra_previous/${0##*/}
if [ -f "$agent_infra_previous" ] && [ -x "$agent_infra_previous" ]; then exec "$agent_infra_previous" "$@"; fi
exit 0
