//! What a commit of tools' changes leaves alone: what is under way inside, and what ignore files cover. Parts of scripts.

/// Ends where something inside would be disturbed.
macro_rules! under_way {
    () => {
        "for under_way in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply sequencer; do
        test ! -e \"$GIT_DIR/$under_way\" || { echo 'a merge or a rebase is under way inside: finish it, or abort it' >&2; exit 4; }
    done
    test ! -e \"$GIT_DIR/index.lock\" || {
        echo \"a git inside holds $GIT_DIR/index.lock; where none runs any more, remove that file inside\" >&2; exit 4; }"
    };
}
pub(super) use under_way;

/// New files that the ignore files of `$BASE` cover are not added, whatever became of those files since. Only those on the way to a new
/// file are looked at.
macro_rules! drop_ignored {
    () => {
        "drop_ignored() {
        rules=$(mktemp -d) || return 1
        new_ones >\"$rules/.added\" || return 1
        test -s \"$rules/.added\" || { rm -rf \"$rules\"; return 0; }
        # What a killed writer of ours left.
        grep -zE '(^|/)[.]cofferdam-sync-[0-9a-f]{16}$' \"$rules/.added\" >\"$rules/.ours\" || :
        test ! -s \"$rules/.ours\" || git update-index -z --force-remove --stdin <\"$rules/.ours\" || return 1
        cp \"$rules/.added\" \"$rules/.up\"
        while test -s \"$rules/.up\"; do
            xargs -0 dirname -z -- <\"$rules/.up\" | sort -zu >\"$rules/.next\"
            cat \"$rules/.next\" >>\"$rules/.all\"
            grep -zvx '[.]' \"$rules/.next\" >\"$rules/.up\" || :
        done
        sort -zu \"$rules/.all\" | sed -z 's|^[.]$||; s|$|/.gitignore|; s|^/||' >\"$rules/.names\"
        xargs -0 -n 1000 git ls-tree -z --full-tree \"$BASE\" -- <\"$rules/.names\" >\"$rules/.tree\" || return 1
        if test -s \"$rules/.tree\"; then
            mkdir \"$rules/tree\" && GIT_INDEX_FILE=\"$rules/.index\" git update-index -z --index-info <\"$rules/.tree\" &&
                GIT_DIR=$READER GIT_WORK_TREE=$rules/tree GIT_INDEX_FILE=\"$rules/.index\" git checkout-index --all --prefix=\"$rules/tree/\" || return 1
            # It takes none literally, and each that begins so.
            sed -z 's|^|./|' \"$rules/.added\" >\"$rules/.asked\"
            (cd \"$rules/tree\" && unset GIT_LITERAL_PATHSPECS &&
                GIT_DIR=$READER GIT_WORK_TREE=$rules/tree git check-ignore -z --no-index --stdin <\"$rules/.asked\" >\"$rules/.covered\")
            test $? -le 1 || return 1
            sed -z 's|^\\./||' \"$rules/.covered\" >\"$rules/.drop\"
            test ! -s \"$rules/.drop\" || git update-index -z --force-remove --stdin <\"$rules/.drop\" || return 1
        fi
        rm -rf \"$rules\"
    }
    drop_left_out() {
        test -s \"$READER/left-out\" || return 0
        # One that is refused as a directory stands for what is in it.
        xargs -0 git ls-files -z -- <\"$READER/left-out\" >\"$index.out\" &&
            git update-index -z --force-remove --stdin <\"$index.out\" &&
            xargs -0 -n 1000 git ls-tree -r -z --full-tree HEAD -- <\"$READER/left-out\" >\"$index.tree\" &&
            git update-index -z --index-info <\"$index.tree\"
        code=$?; rm -f \"$index.out\" \"$index.tree\"; return $code
    }"
    };
}

pub(super) use drop_ignored;
