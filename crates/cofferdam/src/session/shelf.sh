# Brings a branch to the shelf of a repository, by git in a jail: whatever lies there already was written by sandboxes. Each line may
# be the last one before a `kill -9`, and the whole is run again by the next one who wants the branch.
# Standard input says where the history ends.
# $1: branch  $2: its commit here  $3: its directory  $4: origin, or nothing  $5: name  $6: email  $7: host
set -eu
branch=$1 tip=$2 directory=$3 origin=$4
repo=/repo-shelf/repo
mkdir -p /repo-shelf/worktrees
git init -q --template= "$repo"
cd "$repo"
mkdir -p .git/objects/pack
for pack in /packs/*.pack; do
    name=${pack##*/}
    name=${name%.pack}
    [ ! -e ".git/objects/pack/$name.idx" ] || continue
    # git sees a pack by its index.
    for kind in pack idx; do
        cp -- "/packs/$name.$kind" ".git/objects/pack/tmp_$name.$kind"
        mv -f -- ".git/objects/pack/tmp_$name.$kind" ".git/objects/pack/$name.$kind"
    done
done
cat >.git/shallow.new
if [ -s .git/shallow.new ]; then mv -f .git/shallow.new .git/shallow; else rm .git/shallow.new; fi
remote() {
    git config "remote.$1.url" "$2"
    git config "remote.$1.fetch" "+refs/heads/*:refs/remotes/$1/*"
}
[ -z "$origin" ] || remote origin "$origin"
remote host "$7"
git config user.name "$5"
git config user.email "$6"
# Nothing is left on no branch by a look at what is on the shelf.
git symbolic-ref HEAD refs/heads/cofferdam/shelf
git update-ref "refs/remotes/host/$branch" "$tip"
git worktree prune
if [ ! -e "$directory/.git" ]; then
    # What a killed one left is no working tree yet.
    rm -rf -- "$directory"
    if git show-ref -q --verify "refs/heads/$branch"; then
        git -c core.hooksPath=/dev/null worktree add -q -- "$directory" "$branch"
    else
        git -c core.hooksPath=/dev/null worktree add -q --no-track -b "$branch" -- "$directory" "$tip"
    fi
fi
