//! What was changed in files of the sandbox's own, as a commit of those paths alone: nothing of it grows with the repository but the
//! one index inside, which is read and written once.
//!
//! Only where [`super::left`] could tell what was changed and nothing is staged. Wherever anything is odd the script ends with
//! [`ODD`], has moved nothing, and [`super::recording`] goes by the whole index.

use super::left::no_trap;
use super::spared::{drop_ignored, under_way};

/// The exit code of a script that leaves it to the other one. Git and a shell have others.
pub(super) const ODD: i32 = 73;

/// Prints what [`super::recording`] does. Git's own fast-import(1) makes the trees on the way to the paths, in a git directory of its
/// own: the one inside gets the objects, and then HEAD and the index.
pub(super) const RECORD_BY_PATHS: &str = concat!(
    "export LC_ALL=C
    umask 022
    ",
    no_trap!(),
    under_way!(),
    "
    work=$(mktemp -d) && head=$(git rev-parse --verify -q 'HEAD^{commit}') || exit 73
    said=$work/said
    new_ones() { git ls-files -z | sort -z | comm -z -13 \"$work/names\" -; }
    ",
    drop_ignored!(),
    "
    # An index of these paths alone: what the commit has there, and then what is there now.
    changed() {
        cat \"$READER/gone\" \"$READER/add\" >\"$work/paths\" && test -s \"$work/paths\" &&
            xargs -0 -n 1000 git ls-tree -r -z --full-tree \"$head\" -- <\"$work/paths\" >\"$work/tree\" &&
            git update-index -z --index-info <\"$work/tree\" &&
            git ls-files -s | sort >\"$work/before\" && git ls-files -z | sort -z >\"$work/names\" || return 1
        test ! -s \"$READER/gone\" || git update-index -z --add --remove --stdin <\"$READER/gone\" || return 1
        test ! -s \"$READER/add\" ||
            git add --all --force --pathspec-from-file=\"$READER/add\" --pathspec-file-nul || return 1
        drop_ignored && git ls-files -s | sort >\"$work/after\" || return 1
        for one in before after; do cut -f 2- \"$work/$one\" | sort >\"$work/$one.paths\" || return 1; done
        comm -13 \"$work/before\" \"$work/after\" >\"$work/put\" &&
            comm -23 \"$work/before.paths\" \"$work/after.paths\" >\"$work/removed\"
    }
    GIT_INDEX_FILE=$work/index && export GIT_INDEX_FILE && changed >\"$said\" 2>&1 && test ! -s \"$said\" || exit 73
    unset GIT_INDEX_FILE
    { cut -f 2- \"$work/put\"; cat \"$work/removed\"; } | sort >\"$work/all\"
    count=$(wc -l <\"$work/all\")
    test \"$count\" -gt 0 || { rm -rf \"$work\"; echo '- 0'; exit 0; }
    IFS= read -r first <\"$work/all\"
    test \"$count\" = 1 || first=\"$first and $((count - 1)) more\"
    { printf '%s: %s\\n' \"$TOOL\" \"$first\"; test \"$count\" = 1 || { echo; head -n 100 \"$work/all\"; }; } >\"$work/message\"
    mkdir -p \"$work/git/objects\" \"$work/git/refs\" && cp \"$READER/HEAD\" \"$READER/config\" \"$work/git\" || exit 73
    by=\"$NAME <$EMAIL> ${NOW#@}\"
    {
        printf 'commit refs/heads/made\\nmark :1\\nauthor %s\\ncommitter %s\\ndata %s\\n' \"$by\" \"$by\" \"$(wc -c <\"$work/message\")\"
        cat \"$work/message\"
        printf 'from %s\\n' \"$head\"
        sed 's/^/D /' \"$work/removed\"
        # Each is `mode id 0`, a tab and the path, quoted as it is wanted here.
        sed -E 's/^([0-7]+) ([0-9a-f]+) 0\\t/M \\1 \\2 /' \"$work/put\"
    } | GIT_DIR=$work/git git fast-import --quiet --date-format=raw --export-marks=\"$work/marks\" >\"$said\" 2>&1 &&
        made=$(sed -n 's/^:1 //p' \"$work/marks\") && test -n \"$made\" || exit 73
    nothing=$(printf %s \"$head\" | tr 0-9a-f 0)
    # Who dies in between leaves it staged, and the next one commits it.
    { sed \"s/^/0 $nothing\\t/\" \"$work/removed\"; cat \"$work/put\"; } | git update-index --index-info &&
        git update-ref -m \"cofferdam: $TOOL\" HEAD \"$made\" \"$head\" && echo \"$made 0\"
    code=$?
    rm -rf \"$work\"
    exit $code"
);
