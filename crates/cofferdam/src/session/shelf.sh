# Brings a branch to the shelf of a repository, by git in a jail: whatever lies there already was written by sandboxes. Each line may
# be the last one before a `kill -9`, and the whole is run again by the next one who wants the branch.
# Standard input says where the history ends.
# $1: branch  $2: its commit here  $3: its directory  $4: origin, or nothing  $5: name  $6: email  $7: host  $8: where hooks are
# $9: something where none of the commits that were brought last is known here  $10: how objects are named, where not as usual
# Ends with 3, before anything was changed but objects that came, where the shelf is another repository's.
set -eu
branch=$1 tip=$2 directory=$3 origin=$4
repo=/repo-shelf/repo
mkdir -p /repo-shelf/worktrees
# Nobody stands on a branch there, so that each can have a working tree.
[ -d "$repo/.git/objects" ] || git init -q --template= ${10:+"${10}"} --initial-branch=cofferdam/shelf "$repo"
cd "$repo"
mkdir -p .git/objects/pack .git/cofferdam
for pack in /packs/*.pack; do
    name=${pack##*/}
    name=${name%.pack}
    [ ! -e ".git/objects/pack/$name.idx" ] || continue
    # git sees a pack by its index.
    for kind in pack idx; do
        # A pipe in its place would be waited for.
        rm -rf -- ".git/objects/pack/tmp_$name.$kind"
        cp -- "/packs/$name.$kind" ".git/objects/pack/tmp_$name.$kind"
        mv -f -- ".git/objects/pack/tmp_$name.$kind" ".git/objects/pack/$name.$kind"
    done
done
# Nothing is written to what lies there already: it may be a pipe.
scratch=$(mktemp -d)
cat >"$scratch/shallow"
if [ -s "$scratch/shallow" ]; then
    [ ! -s .git/shallow ] || cat .git/shallow >>"$scratch/shallow"
    # A rename: half of it would stop every git here.
    all=$(mktemp .git/cofferdam/shallow.XXXXXX)
    sort -u "$scratch/shallow" >"$all"
    mv -f "$all" .git/shallow
fi
before=$(git for-each-ref --format='%(objectname)' refs/remotes/host)
if [ -n "$9" ] && [ -n "$before" ] && [ ! -s .git/shallow ]; then
    related=0
    # Each is a name of a commit, and a word.
    # shellcheck disable=SC2086
    git merge-base "$tip" $before >"$scratch/related" || related=$?
    [ "$related" != 1 ] || exit 3
fi
remote() {
    git config --replace-all "remote.$1.url" "$2"
    # Whoever works there may want others as well.
    git config --get-all "remote.$1.fetch" >/dev/null || git config "remote.$1.fetch" "+refs/heads/*:refs/remotes/$1/*"
}
[ -z "$origin" ] || remote origin "$origin"
remote host "$7"
# A push goes through the gate of the host, and what is fetched is what the sandbox has.
git config --replace-all remote.host.pushurl cofferdam::host
git config --replace-all core.hooksPath "$8"
git config --replace-all user.name "$5"
git config --replace-all user.email "$6"
# Where a branch was renamed to one below it, its name is in the way; the commit has one all the same.
git update-ref "refs/remotes/host/$branch" "$tip" 2>/dev/null ||
    git update-ref "refs/cofferdam/host/$(printf %s "$branch" | git hash-object --stdin)" "$tip"

# What we have begun and not handed out is ours; everything else is somebody's work.
begun=.git/cofferdam/begun-${directory##*/}
if [ -e "$begun" ] && [ -e "$directory/.git" ]; then
    rm -f "$(git -C "$directory" rev-parse --absolute-git-dir)/index.lock"
elif [ -e "$directory/.git" ]; then
    exit 0
else
    if [ -e "$directory" ] && [ ! -e "$begun" ] && ! rmdir "$directory" 2>/dev/null; then
        aside=$directory.aside-$(date +%s)
        mv -- "$directory" "$aside"
        echo "what was there is in $aside" >&2
    fi
    rm -rf -- "$begun"
    : >"$begun"
    rm -rf -- "$directory"
    # Not `prune`: working trees that lie elsewhere inside are not seen here, and are not gone.
    for one in .git/worktrees/*/gitdir; do
        [ -e "$one" ] || continue
        [ "$(cat "$one")" != "$directory/.git" ] || rm -rf -- "${one%/gitdir}"
    done
    if git show-ref -q --verify "refs/heads/$branch"; then
        git -c core.hooksPath=/dev/null worktree add -q --no-checkout -- "$directory" "$branch"
    else
        git -c core.hooksPath=/dev/null worktree add -q --no-checkout --no-track -b "$branch" -- "$directory" "$tip"
    fi
fi
git -C "$directory" -c core.hooksPath=/dev/null reset -q --hard
rm -f "$begun"
