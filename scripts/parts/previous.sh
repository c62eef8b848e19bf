# shellcheck shell=bash
# The command as the commit before this one has it: what it has made is looked after by this one. Read by scripts/test.

# Builds it in the target directory, and says where it is in COFFERDAM_TEST_PREVIOUS. A release archive has no such commit.
previous_up() {
    local place=${CARGO_TARGET_DIR:-$top/target}/previous commit
    commit=$(git -C "$top" rev-parse --verify --quiet 'HEAD^{commit}^') || return 0
    say "the command of ${commit:0:10}, the commit before this one"
    if [[ ! -f $place/commit || $(<"$place/commit") != "$commit" ]]; then
        rm -rf -- "$place/tree" "$place/commit"
        mkdir -p "$place/tree"
        git -C "$top" archive "$commit" | tar -C "$place/tree" -xf -
        # What was built of another commit is newer than that.
        find "$place/tree" -name '*.rs' -exec touch -- {} +
        (cd "$place/tree" && CARGO_TARGET_DIR=$place/target cargo build --quiet --locked -p cofferdam-cli)
        echo "$commit" >"$place/commit"
    fi
    export COFFERDAM_TEST_PREVIOUS=$place/target/debug/cofferdam
}
