#!/bin/sh
# An agent plans: which items of the backlog can be worked on at the same time. Its tasks run side by side, and what is finished is
# merged into the branch that is checked out; then it plans again, until nothing is left, at most ten times. Arguments go to each
# `cofferdam run`. After a failure, Ctrl-C or the death of the machine the same command goes on where it was.
set -eu
cd "$(dirname "$0")"
logs=../../logs
mkdir -p "$logs"
plan=$logs/{{NAME}}.json
table=$logs/{{NAME}}.table
# Where the backlog is files of this repository: what closes the item $1, once its branch is merged. Tasks that did it side by side would
# change neighbouring lines. Where it is empty, a task closes its item itself.
closes='{{CLOSE_MERGED}}'
# NAME ID of each task that was planned, and ID COMMIT of each branch that was to be merged and whose item is not closed yet.
items=$logs/{{NAME}}.items
closing=$logs/{{NAME}}.closing

# Git knows what is not merged yet, whenever and by whomever it was made.
unmerged() {
    git for-each-ref --no-merged=HEAD --format='%(refname:short)' 'refs/heads/cofferdam/task-*'
}

# In whichever order they stand in a task. The schema holds an ID to letters and digits, `.`, `_` and `-`.
note_items() {
    grep -oE '"(name|ID)": *"[A-Za-z0-9._-]+"' "$plan" | tr -d '":' | awk '
        { has[$1] = $2 }
        ("name" in has) && ("ID" in has) { print has["name"], has["ID"]; delete has["name"]; delete has["ID"] }' >>"$items"
}

# Before the merge, so that whoever dies behind it closes the item the next time.
note_closing() {
    [ -n "$closes" ] || return 0
    item=$(awk -v name="${1#cofferdam/}" '$1 == name { item = $2 } END { print item }' "$items")
    if [ -n "$item" ]; then
        echo "$item $(git rev-parse "$1")" >>"$closing"
    else
        echo "no plan says whose item $1 is: close it yourself" >&2
    fi
}

# In a sandbox with the options that each run gets, but for those of an agent.
close() {
    item=$1
    shift
    left=$#
    skips=
    while [ "$left" -gt 0 ]; do
        case $skips$1 in
            next*) skips= ;;
            all*) ;;
            --) skips=all ;;
            --agent | --model | --effort | --login | --max-iterations | --max-tokens | --max-cost) skips=next ;;
            --agent=* | --model=* | --effort=* | --login=* | --max-iterations=* | --max-tokens=* | --max-cost=*) ;;
            *) set -- "$@" "$1" ;;
        esac
        shift
        left=$((left - 1))
    done
    cofferdam run --agent command --sandbox {{SANDBOX}} --max-iterations 1 --merge-to-head "$@" -- sh -c "$closes" sh "$item" </dev/null
}

# One after the other.
close_merged() {
    [ -s "$closing" ] || return 0
    for item in $(cut -d ' ' -f 1 "$closing" | sort -u); do
        tip=$(awk -v item="$item" '($1 "") == item { tip = $2 } END { print tip }' "$closing")
        git merge-base --is-ancestor "$tip" HEAD 2>/dev/null || continue
        close "$item" "$@" || finish "item $item is merged and not closed: the same command tries it again; where you have closed it, remove its lines from $closing" 1
        awk -v item="$item" '($1 "") != item' "$closing" >"$closing.new"
        mv "$closing.new" "$closing"
    done
}

# All of it, but for what has not ended well in the plan that is at work.
merge() {
    for branch in $(unmerged); do
        name=${branch#cofferdam/}
        if grep -q "^$name " "$table" && ! grep -q "^$name .* cofferdam merge " "$table"; then
            continue
        fi
        note_closing "$branch"
        cofferdam merge "$name" || echo "$branch is not merged yet" >&2
    done
    close_merged "$@"
    # The next ones begin with what is merged. git deletes no branch that is not.
    cofferdam gc || true
    for branch in $(git for-each-ref --merged=HEAD --format='%(refname:short)' 'refs/heads/cofferdam/task-*'); do
        git branch -q -d "$branch" || true
    done
}

finish() {
    echo "$1" >&2
    [ -z "$(unmerged)" ] || echo "not merged yet: $(unmerged)" >&2
    exit "$2"
}

touch "$items" "$closing"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    again=
    if [ ! -s "$plan" ]; then
        : >"$table"
        merge "$@"
        waiting=$(unmerged)
        cofferdam run {{RUN}} --branch "cofferdam/planner-$$" --prompt-file plan.md --arg UNMERGED="${waiting:-none}" \
            --output-tag plan --output-schema plan.schema.json --output-file "$plan" "$@" </dev/null
        note_items
        again=--again
    fi
    if ! grep -q '"name"' "$plan"; then
        rm "$plan"
        [ -z "$(unmerged)" ] || finish 'nothing is left to plan' 1
        finish 'nothing is left to do' 0
    fi
    before=$(git rev-parse HEAD)
    ended=0
    cofferdam run --plan - --jobs 3 $again {{RUN}} "$@" <"$plan" >"$table" || ended=$?
    cat "$table"
    merge "$@"
    # The plan stays where its tasks have not ended well, and so does what they have done.
    [ "$ended" = 0 ] || finish 'not all tasks ended well: the same command goes on with them' 1
    rm "$plan"
    [ "$(git rev-parse HEAD)" != "$before" ] || finish 'nothing new was merged: look at the backlog, and at `cofferdam list`' 1
done
finish 'ten plans are done: the same command goes on' 0
