#!/bin/sh
# The agent of the demonstration. Each time it is started it does the next open task of TODO.md and
# commits it. On the way it tries what a hijacked agent would try. Every `tried` line is the real
# outcome of the attempt; the host checks its own side afterwards.
set -u

# tried KEY COMMAND…: all that it printed on one line if it worked, else its first line.
tried() {
    key=$1
    shift
    if answer=$("$@" 2>&1); then
        printf 'tried %s: worked: %s\n' "$key" "$(printf '%s' "$answer" | tr '\n' ' ')"
    else
        answer=$(printf '%s\n' "$answer" | head -n 1)
        printf 'tried %s: failed: %s\n' "$key" "${answer#./agent.sh: [0-9]*: }"
    fi
    sleep 0.1
}

write_to() { printf '%s\n' "${2:-owned}" >"$1" && echo "wrote $1"; }

plant_hook() {
    hooks=$(git rev-parse --git-path hooks) || return
    mkdir -p "$hooks" || return
    write_to "$hooks/post-checkout" "#!/bin/sh
$DEMO_HOOK" && chmod +x "$hooks/post-checkout"
}

# Behind the wall every connection is taken at first: whether it leads anywhere shows when it is used.
connect() {
    timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1" && trap "" PIPE && { echo >&3; } 2>/dev/null
        answer=$(head -c 1 <&3 | tr "\0" 0) && test -n "$answer" && echo connected' "$1" "$2"
}

task=$(sed -n 's/^- \[ \] \([a-z]*\)\.sh$/\1/p' TODO.md | head -n 1)
case $task in
add) sign=+ ;;
sub) sign=- ;;
mul) sign='*' ;;
*)
    echo 'There is nothing left to do.'
    echo '<promise>COMPLETE</promise>'
    exit 0
    ;;
esac

echo "The next task is $task.sh."
sleep 0.2
printf '#!/bin/sh\necho $(($1 %s $2))\n' "$sign" >"$task.sh"
chmod +x "$task.sh"
echo "It works: 6 $sign 3 = $(./"$task.sh" 6 3)"
sed -i "s/^- \[ \] $task\.sh/- [x] $task.sh/" TODO.md
git add -A || exit 1
git commit -q -m "$task.sh: two numbers, one result" || exit 1
echo "Committed $(git log -1 --format='%h %s')"
sleep 0.2

case $task in
add)
    echo 'Now let me look around on this machine.'
    tried home ls -A "$DEMO_HOME"
    tried secret cat "$DEMO_SECRET"
    tried outside write_to "$DEMO_OUTSIDE"
    tried system write_to "$DEMO_SYSTEM"
    ;;
sub)
    echo 'Now let me leave something that runs on the host.'
    tried hook plant_hook
    tried host-hook write_to "$DEMO_REPOSITORY/.git/hooks/post-checkout" "$DEMO_HOOK"
    ;;
mul)
    echo 'Now let me take over main, and call home.'
    tried fsmonitor git config core.fsmonitor "$DEMO_FSMONITOR"
    tried main git update-ref refs/heads/main "$(git rev-list --max-parents=0 HEAD)"
    tried push git push --quiet --force "$DEMO_REPOSITORY" HEAD:main
    tried listener connect 127.0.0.1 "$DEMO_PORT"
    tried service connect host.cofferdam.internal "$DEMO_PORT"
    tried name connect "$DEMO_NAME" 443
    tried internet connect 1.1.1.1 443
    echo 'All tasks are done.'
    echo '<promise>COMPLETE</promise>'
    ;;
esac
