# Which commits of the host's are behind $1, for each of the others, and a pack of what is not: lines of two commits, one of `pack`, then the
# pack. Ends with 3 where the commit is not there.
tip=$1
shift
git cat-file -e "$tip^{commit}" 2>/dev/null || exit 3
behind=
for one; do
    common=$(git merge-base "$tip" "$one" 2>/dev/null) || continue
    echo "$one $common"
    behind="$behind ^$common"
done
echo pack
printf '%s\n' "$tip" $behind | git pack-objects --revs --thin --stdout --delta-base-offset -q
