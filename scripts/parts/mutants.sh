# shellcheck shell=bash
# Removes one check of one invariant at a time and wants a failing test each time. Read by scripts/test.
#
# A patch in scripts/mutants/ removes one check. Lines above its `diff --git` say which, and who
# must notice:
#     invariant: 8
#     removes: ending the process group of a call that took too long
#     test: -p cofferdam --lib process::tests::limits_end_the_whole_group
# `test:` holds arguments of `cargo test` and may be repeated: one failing test is enough. One that is still not done
# after its time has said nothing, unless waiting for ever is the sign that is expected: `hangs: yes`.

# What was caught is written to scripts/mutants/caught, which is part of the repository: a mutant is tried again when its patch,
# a file that it changes or one that has its tests is not as it was then. `--mutants all` tries every one.

field() { sed -n "/^diff --git/q; s/^$1: //p" "$2"; }

# Runs `cargo test` with the words of $1. 0 passed, 1 failed, 2 not built, 3 nothing ran, 4 not done within its time.
run_test() {
    local status=0
    local -a words
    read -r -a words <<<"$1"
    local before=() after=() word in_names=0
    for word in "${words[@]}"; do
        [[ $word == -- ]] && in_names=1 && continue
        if ((in_names)); then after+=("$word"); else before+=("$word"); fi
    done
    cargo test --quiet --locked --no-run "${before[@]}" >"$own/out" 2>&1 || return 2
    timeout --kill-after=10 600 cargo test --locked "${before[@]}" -- "${after[@]}" \
        >"$own/out" 2>&1 </dev/null || status=$?
    case $status in
        0) ;;
        124 | 137) return 4 ;;
        *) return 1 ;;
    esac
    grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$own/out" || return 3
}

end_left() {
    local process
    while read -r process _; do
        kill -9 "$process" 2>/dev/null || true
    done < <(work=$own/t ours_alive)
    rm -rf -- "$own/t"
    mkdir -m 1777 "$own/t"
}

# The next line of the file $1, which several take theirs from.
next_of() {
    local line
    {
        flock 9
        line=$(head -n 1 "$1")
        sed -i 1d "$1"
    } 9>>"$1.lock"
    [[ -n $line ]] && printf '%s\n' "$line"
}

# Says what the test of $1 did where that is not what a test does without a mutant, and that all may end.
control() {
    local status=0
    run_test "$1" || status=$?
    ((status)) || return 0
    {
        flock 9
        tail -n 30 "$own/out"
        case $status in
            2) echo "$1: it does not build" ;;
            3) echo "$1: that names no test" ;;
            4) echo "$1: it hangs without any mutant" ;;
            *) echo "$1: it fails without any mutant" ;;
        esac
        echo "$1" >>"$work/refused"
    } 9>>"$work/told"
}

# Tries the patch $1, and prints a row for the table.
mutant() {
    local patch=$1 name test status verdict row
    name=${patch##*/}; name=${name%.patch}
    if ! git apply -C1 --whitespace=nowarn "$patch" 2>"$own/out"; then
        verdict='does not apply'
    else
        verdict=SURVIVED
        while read -r test; do
            status=0; run_test "$test" || status=$?
            case $status in
                1) verdict="caught by ${test##* }"; break ;;
                2) verdict='does not build'; break ;;
                4)
                    verdict="hung: ${test##* }"
                    if [[ $(field hangs "$patch") == yes ]]; then verdict="caught, as it hung: ${test##* }"; break; fi
                    ;;
            esac
        done < <(field test "$patch")
        git apply -C1 --whitespace=nowarn -R "$patch"
        end_left
    fi
    {
        flock 9
        echo "$name: $verdict"
        if [[ $verdict != caught* ]]; then echo "$name" >>"$work/bad"; tail -n 30 "$own/out"; fi
        row="| $(field invariant "$patch" | tr '\n' ' ')| $name | $(field removes "$patch") | $verdict |"
        echo "$row" >>"$work/rows"
    } 9>>"$work/told"
    if [[ $verdict == caught* ]]; then note_caught "$name"; fi
}

# One of those who try them, each in a tree of their own. $1 is their number.
try_mutants() {
    local own=$work/$1 line
    mkdir "$own"
    copy_tree "$own/tree"
    # A run that was killed leaves its mutant built, and cargo takes the older sources for what that was built from.
    find "$own/tree" -name '*.rs' -exec touch -- {} +
    # A test that fails leaves its sandboxes; what sees this directory is ended.
    mkdir -m 1777 "$own/t"
    export TMPDIR=$own/t INSTA_WORKSPACE_ROOT=$own/tree
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}/mutants/$1
    cd "$own/tree"
    while line=$(next_of "$work/controls"); do control "$line"; done
    # Whoever is done first waits for what the others find.
    : >"$own/controlled"
    while [[ $(find "$work" -maxdepth 2 -name controlled | wc -l) -lt $workers ]]; do sleep 0.2; done
    [[ ! -e $work/refused ]] || return 0
    while line=$(next_of "$work/patches"); do mutant "$line"; done
}

# The files that have a function of this name; with `begins`, one whose name begins so, as tests are named.
files_with() {
    awk -F'\t' -v name="$1" -v begins="${2-}" \
        '$2 == name || begins != "" && index($2, name) == 1 { print $1 }' "$work/functions"
}

# What the verdict of the mutant $1 hangs on: its patch, the files that it changes, and those that have its tests.
fingerprint() {
    local patch=$1 test name
    {
        cat "$patch"
        {
            sed -n 's/^+++ b\///p' "$patch"
            while read -r test; do
                # `conforms::it::docker` is made of a function `it`.
                name=${test##* }
                files_with "${name##*::}" begins
                if [[ $name == *::* ]]; then name=${name%::*}; files_with "${name##*::}"; fi
            done < <(field test "$patch")
        } | sort -u | (cd "$top" && xargs -r cat)
    } | sha256sum | cut -c 1-16
}

# Those of the patches, as the tree is when they begin.
fingerprints() {
    local patch name
    (cd "$top" && grep -rnoE --include='*.rs' 'fn [a-z_0-9]+' crates) \
        | sed -E 's/^([^:]*):[0-9]*:fn (.*)$/\1\t\2/' | sort -u >"$work/functions"
    for patch in "$@"; do
        name=${patch##*/}
        printf '%s\t%s\n' "${name%.patch}" "$(fingerprint "$patch")"
    done >"$work/prints"
}

# The line of the mutant $1 among those.
print_of() { awk -F'\t' -v name="$1" '$1 == name' "$work/prints"; }

# Writes down that the mutant $1 was caught.
note_caught() {
    {
        flock 9
        { awk -F'\t' -v name="$1" '$1 != name' "$ledger"; print_of "$1"; } | LC_ALL=C sort >"$work/ledger"
        cat "$work/ledger" >"$ledger"
    } 9>>"$work/ledger.lock"
}

mutants() {
    local patches=() patch name workers known=0 ledger=$top/scripts/mutants/caught
    if (($#)) && [[ $* != all ]]; then
        for name in "$@"; do patches+=("$top/scripts/mutants/$name.patch"); done
    else
        patches=("$top"/scripts/mutants/*.patch)
    fi
    for patch in "${patches[@]}"; do
        [[ -f $patch ]] || die "there is no ${patch#"$top"/}"
        [[ -n $(field test "$patch") ]] || die "${patch##*/} names no test"
    done
    new_work
    fingerprints "${patches[@]}"
    : >>"$ledger" >>"$work/rows"
    if (($# == 0)); then
        for patch in "${!patches[@]}"; do
            name=${patches[patch]##*/}
            if grep -qxF "$(print_of "${name%.patch}")" "$ledger"; then
                unset 'patches[patch]'
                known=$((known + 1))
            fi
        done
        patches=("${patches[@]}")
    fi
    if ((${#patches[@]} == 0)); then
        say "all $known mutants were caught as they are"
        return
    fi
    # Nobody debugs them.
    export CARGO_PROFILE_DEV_DEBUG=0
    # One binary after the other: what a mutant does not change is not built again.
    for patch in "${patches[@]}"; do field test "$patch"; done | sort -u >"$work/controls"
    for patch in "${patches[@]}"; do printf '%s\t%s\n' "$(field test "$patch" | head -n 1)" "$patch"; done \
        | sort | cut -f 2 >"$work/patches"
    workers=$(nproc)
    workers=$((workers < ${#patches[@]} ? workers : ${#patches[@]}))

    say "${#patches[@]} mutants, $workers at a time, and $known that were caught as they are; before them their tests, as the source stands"
    local n processes=() process
    for ((n = 1; n <= workers; n++)); do
        try_mutants "$n" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || die 'one who tried them ended'; done
    [[ ! -e $work/refused ]] || die "$(wc -l <"$work/refused") tests of mutants fail as the source stands"
    printf '\n| invariant | mutant | removes | verdict |\n|---|---|---|---|\n'
    sort -t'|' -k 3 "$work/rows"
    [[ ! -e $work/bad ]] || die "$(wc -l <"$work/bad") of ${#patches[@]} mutants were not caught"
    say "all $((known + ${#patches[@]})) mutants were caught"
}
