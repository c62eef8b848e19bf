# Read by run.sh. Items are lines of one file of this repository: tasks that closed them side by side would change neighbouring lines. So each
# is closed by a commit of its own once its branch is merged.

# What closes the item $1, in a sandbox.
closes='{{CLOSE_MERGED}}'
# NAME ID of each task that was planned, and ID COMMIT of each branch that was to be merged and whose item is not closed yet.
items=$logs/{{NAME}}.items
closing=$logs/{{NAME}}.closing
touch "$items" "$closing"

# In whichever order they stand in a task. The schema holds an ID to letters and digits, `.`, `_` and `-`.
note_items() {
    grep -oE '"(name|ID)": *"[A-Za-z0-9._-]+"' "$plan" | tr -d '":' | awk '
        { has[$1] = $2 }
        ("name" in has) && ("ID" in has) { print has["name"], has["ID"]; delete has["name"]; delete has["ID"] }' >>"$items"
}

# Before the merge, so that whoever dies behind it closes the item the next time.
note_closing() {
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
