#!/bin/sh
# One item after the other: worked on, reviewed, merged into the branch that is checked out. It ends when an agent finds nothing to do,
# or after ten items. Arguments go to each `cofferdam run`. After a failure the same command goes on where it was.
set -eu
cd "$(dirname "$0")"

# Git knows whether there is work that is not merged yet.
ahead() {
    git rev-parse --quiet --verify refs/heads/cofferdam/item >/dev/null &&
        [ -n "$(git rev-list -n 1 HEAD..refs/heads/cofferdam/item)" ]
}

for _ in 1 2 3 4 5 6 7 8 9 10; do
    # What was begun comes to its end first.
    again=--again
    if ahead; then again=; fi
    cofferdam run --plan plan.yaml $again {{RUN}} "$@" </dev/null
    if ! ahead; then
        echo 'nothing is left to do'
        exit 0
    fi
    cofferdam merge item
    # The next one begins with what is merged. git deletes no branch that is not.
    cofferdam gc || true
    git branch -q -d cofferdam/item
done
echo 'ten items are done: the same command goes on with more'
