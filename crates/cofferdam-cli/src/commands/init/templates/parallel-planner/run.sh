#!/bin/sh
# An agent plans: which items of the backlog can be worked on at the same time. Its tasks run side by side, and what is finished is
# merged into the branch that is checked out; then it plans again, until nothing is left, at most ten times. Arguments go to each
# `cofferdam run`, and `--jobs` to those of tasks. After a failure, Ctrl-C or the death of the machine the same command goes on where it was.
set -eu
cd "$(dirname "$0")"
logs=../../logs
mkdir -p "$logs"
plan=$logs/{{NAME}}.json
table=$logs/{{NAME}}.table
# What closes items once their branch is merged, where the backlog is files of this repository; elsewhere a task closes its own.
note_items() { :; }
note_closing() { :; }
close_merged() { :; }
[ ! -e closing.sh ] || . ./closing.sh

# How many tasks run side by side; a planner is alone.
jobs=3 before=
for word; do
    shift
    case $before:$word in
        --jobs:*) jobs=$word before= ;;
        :--jobs) before=--jobs ;;
        :--jobs=*) jobs=${word#*=} ;;
        :--) before=-- && set -- "$@" -- ;;
        *) set -- "$@" "$word" ;;
    esac
done

# Git knows what is not merged yet, whenever and by whomever it was made.
unmerged() {
    git for-each-ref --no-merged=HEAD --format='%(refname:short)' 'refs/heads/cofferdam/task-*'
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
    cofferdam run --plan - --jobs "$jobs" $again {{RUN}} "$@" <"$plan" >"$table" || ended=$?
    cat "$table"
    merge "$@"
    # The plan stays where its tasks have not ended well, and so does what they have done.
    [ "$ended" = 0 ] || finish 'not all tasks ended well: the same command goes on with them' 1
    rm "$plan"
    [ "$(git rev-parse HEAD)" != "$before" ] || finish 'nothing new was merged: look at the backlog, and at `cofferdam list`' 1
done
finish 'ten plans are done: the same command goes on' 0
