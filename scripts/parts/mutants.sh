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
    cargo test --quiet --locked --no-run "${before[@]}" >"$work/out" 2>&1 || return 2
    timeout --kill-after=10 600 cargo test --locked "${before[@]}" -- "${after[@]}" \
        >"$work/out" 2>&1 </dev/null || status=$?
    case $status in
        0) ;;
        124 | 137) return 4 ;;
        *) return 1 ;;
    esac
    grep -Eq '^test result: ok\. [1-9][0-9]* passed' "$work/out" || return 3
}

end_left() {
    local process
    while read -r process _; do
        kill -9 "$process" 2>/dev/null || true
    done < <(work=$work/t ours_alive)
    rm -rf -- "$work/t"
    mkdir -m 1777 "$work/t"
}

mutants() {
    local patches=() patch name
    if (($#)); then
        for name in "$@"; do patches+=("$top/scripts/mutants/$name.patch"); done
    else
        patches=("$top"/scripts/mutants/*.patch)
    fi
    for patch in "${patches[@]}"; do
        [[ -f $patch ]] || die "there is no ${patch#"$top"/}"
        [[ -n $(field test "$patch") ]] || die "${patch##*/} names no test"
    done
    new_work
    copy_tree "$work/tree"
    # A run that was killed leaves its mutant built, and cargo takes the older sources for what that was built from.
    find "$work/tree" -name '*.rs' -exec touch -- {} +
    # A test that fails leaves its sandboxes; what sees this directory is ended.
    mkdir -m 1777 "$work/t"
    export TMPDIR=$work/t
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}/mutants INSTA_WORKSPACE_ROOT=$work/tree
    cd "$work/tree"

    say 'control: the named tests pass as the source stands'
    local test status
    while read -r test; do
        status=0; run_test "$test" || status=$?
        echo "$test"
        if ((status)); then
            tail -n 30 "$work/out"
            case $status in
                2) die 'it does not build' ;;
                3) die 'that names no test' ;;
                4) die 'it hangs without any mutant' ;;
                *) die 'it fails without any mutant' ;;
            esac
        fi
    done < <(for patch in "${patches[@]}"; do field test "$patch"; done | sort -u)

    say 'mutants'
    local rows=() bad=0 verdict
    for patch in "${patches[@]}"; do
        name=${patch##*/}; name=${name%.patch}
        if ! git apply -C1 --whitespace=nowarn "$patch" 2>"$work/out"; then
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
        echo "$name: $verdict"
        if [[ $verdict != caught* ]]; then bad=$((bad + 1)); tail -n 30 "$work/out"; fi
        rows+=("| $(field invariant "$patch" | tr '\n' ' ')| $name | $(field removes "$patch") | $verdict |")
    done
    printf '\n| invariant | mutant | removes | verdict |\n|---|---|---|---|\n'
    printf '%s\n' "${rows[@]}"
    cd "$top"
    ((bad == 0)) || die "$bad of ${#patches[@]} mutants were not caught"
    say "all ${#patches[@]} mutants were caught"
}
