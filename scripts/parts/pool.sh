# shellcheck shell=bash
# The pool: every test of every binary is a job of its own, and as many as the machine bears run at the
# same time, whichever binary they are from. Read by scripts/test, which sets `top`, `work` and `user`.

# What runs whole, as one job: unit tests, which are over in milliseconds, and the attacks on the wall,
# which share one lab.
whole='^([^/]*/unit|cofferdam-cli/wall)$'
# Parts of other tests: programs that these start. They are no tests of their own.
helpers='(^|::)helper(_[a-z_]*)?$'
# A job that takes longer hangs.
limit=600

# What the ordinary user's pass leaves out: the job's name (binary::test) as a pattern, and why.
left_out_for_user() {
    cat <<END
^cofferdam-cli/requirements::	reads the checkout
^[^:]*::(.*::)?(compile_fail|does_not_compile|docs_are_current)	calls cargo, or reads the checkout
^cofferdam/(native|hostile_guest)::	each test becomes the ordinary user by itself
${rootless_docker_host:-^cofferdam/engines::.*::docker$}	each test becomes a user of Docker's group by itself
^cofferdam-guest/wall::	each test becomes the ordinary user by itself
^cofferdam/(agents|prompt)::	words and commands: no process, no file of another user
^cofferdam/gate::	objects and references: git says the same to everybody
^cofferdam/session::bad_input::refused::bombs	what the gate reads of a pack, and its limits
^cofferdam/session::providers::a_provider_that_does_not_close	a provider of the test's own, and our clock
^cofferdam-cli/cli::wall::gateway::a_gateway_that_is_stopped	how long we wait
^cofferdam-cli/cli::codex::	the port is one for the whole machine
^cofferdam-cli/cli::wall::bad_input::very_many_rules	how many rules there are
^cofferdam-cli/cli::(usage|completions|reference|terminal|mistakes)::	what is printed: it is the same for everybody
END
}

# Of these the ordinary user has the quarter that the seed chooses, where root has them all in the same suite; those are
# left out of the choice that are about what a user may. `--all`: every one.
user_share=4
halved='^(cofferdam/(session|engines|gitin)|cofferdam-cli/(cli|chaos|agents))::'
# Of what runs in root's Podman the third that the seed chooses: in Docker all of it does.
podman_share=3
podman='^cofferdam/engines::.*::podman$'
# And of the command's tests in containers the third that the seed chooses (tests/cli/containers.rs).
# What every run asks of the ordinary user's own Podman: what holds an agent in, and where it is found. `--all` asks everything.
own_podman='^(cofferdam/engines::conforms::(a_program_has_none_that|no_system_call_leads|behind_the_wall|closing_ends|one_that_lives_on).*::podman|cofferdam-cli/cli::engine_session::.*)$'
# Of the attacks on the wall, which are made natively by root, one of so many: in Docker, in Podman, and natively as the ordinary user.
wall_docker=4 wall_podman=8 wall_user=4
# Of all tests so many are in memory but one, where a run has that: `--all` and `--repeat` are on the disk.
on_disk=3
# What is about file systems that write to one.
of_disks='::(trees_large::what_a_layer_takes_is_about_what_du_says|files::only_what_changed_is_read|tools::.*)$'
never_halved='::(keeper|doctor|programs|homes|shown|environment|no_room|full_disk|bad_input::(users|streams))'
# Of the tests that took longer than so many seconds when all of them were last timed (`--times`), root has the share that the seed
# chooses, wherever they run: the names are in $slow_tests. What holds an agent in is tried each time.
slow_tests=$top/scripts/parts/slow slow_seconds=6 slow_share=4
never_slow='[/:]([a-z_]*attacks?(_[a-z_]*)?|hostile(_guest)?|conforms|requirements|layers)::'

# Passes on the jobs on standard input that are run this time; the others are counted in $work/halved, and by identity.
halve() {
    awk -F'\t' -v seed="$seed" -v halved="$halved" -v never="$never_halved|$own_podman" -v left="$work/halved" -v podman="$podman" \
        -v user_share="$user_share" -v podman_share="$podman_share" \
        -v slow_tests="$slow_tests" -v slow_share="$slow_share" -v never_slow="$never_slow" '
        BEGIN {
            for (n = 1; n < 128; n++) code[sprintf("%c", n)] = n
            while ((getline line <slow_tests) > 0) slow[line]
        }
        {
            name = $4 "::" $5
            share = 1
            if ($1 == "user") { if (name ~ halved && name !~ never) share = user_share }
            else if (name ~ podman) share = podman_share
            if ($1 != "user" && name in slow && name !~ never_slow && share < slow_share) share = slow_share
            sum = seed % 65521
            for (n = 1; n <= length(name); n++) sum = (sum * 31 + code[substr(name, n, 1)]) % 65521
            if (int(sum / 16) % share) { print $1 "\t" name >left; next }
            print
        }'
}

# Of these tests of `session` each runs in the mode that people get who say nothing, and in each of the others the share that the
# seed chooses; `--all` and `--repeat`: in all three. What is about one mode names it in the test itself, and the other tests
# either do that or work in the checkout, which has one mode: one that leaves its mode open and is not here fails. Most of
# `living_attacks` is about the checkout. Of the command those run so that are about what a sandbox leaves and what becomes of it;
# its other tests have one mode each.
moded=(branches:: half_merged:: lifecycle:: living:: living_collect:: living_dropped:: living_faults:: living_flows:: living_ports:: living_small::
    living_turns:: notes:: prompts:: shown:: submodules:: bad_input::{beside,hostile,paths,refused,repositories,users}::
    living_attacks::what_{is_traced,wakes_itself})
moded_cli=(delete:: gc:: kept:: list:: look:: merge::)
mode_share=8

# The same tests of a session in containers, where this run has started those engines itself (`--all`).
contained='^cofferdam/session::'
# Which of them are native alone, by how their names begin, and why.
native() {
    cat <<END
agents::	programs of this machine are the agents
compile_fail::	nothing is made
apart::agents_are_apart	it compares with this machine's own directories, which no container shows
bad_input::paths::repositories_below_any_path	an engine takes no name that is not UTF-8
every_entry::a_stream_that_breaks	programs of this machine are the agents
every_entry::commits_on_no_branch	there is no sandbox
living_attacks::what_wakes	it chooses whether the freezer or signals stop it
living_collect::nothing_runs_while	it chooses whether the freezer or signals stop it
living_collect::one_that_fights	it chooses whether the freezer or signals stop it
living_collect::one_that_never	it chooses whether the freezer or signals stop it
living_collect::that_it_was_ended	it chooses whether the freezer or signals stop it
living_small::	containers have numbers of their own in scripts/bench
orchestrate::	what is tried is no sandbox's
without_git::	the provider is the test's own
END
}

# Dies where a name of those lists begins no test.
check_lists() {
    local native
    mapfile -t native < <(native | cut -f1)
    check_list cofferdam/session "${moded[@]}" "${native[@]}"
    check_list cofferdam-cli/cli "${moded_cli[@]}"
}

check_list() {
    local label=$1 binary tests name
    binary=$(awk -v label="$label" '$3 == label { print $2 }' "$work/binaries")
    tests=$("$binary" --list --format terse)
    for name in "${@:2}"; do
        [[ $'\n'$tests == *$'\n'"$name"* ]] || die "scripts/parts/pool.sh names \`$name\`, and no test of $label begins so"
    done
}

# What matches tests of the binary $1 whose names begin so.
named_so() {
    local label=$1 IFS='|'
    echo "^$label::(${*:2})"
}

# Adds to each of the jobs on standard input its mode, or `-`; what is left out is counted in $work/moded. What of containers `--all`
# has nowhere to run is written to $work/untried.caller and .user, as verdicts are.
in_modes() {
    alone=$(native) no_docker=${absent[docker]-} no_podman=${absent[podman]-} no_tools=${absent[tools]-} \
        awk -F'\t' -v OFS='\t' -v seed="$seed" -v all="$repeat${COFFERDAM_TEST_ALL-}" \
        -v whole="${engines:+${COFFERDAM_TEST_ALL-}}" \
        -v docker="${engines:+${DOCKER_HOST-}}" -v podman="${engines:+${CONTAINER_HOST-}}" \
        -v moded="$(named_so cofferdam/session "${moded[@]}")|$(named_so cofferdam-cli/cli "${moded_cli[@]}")" \
        -v own="${rootless_docker_host:+docker}${rootless_host:+ podman}" -v untried="$work/untried" \
        -v contained="$contained" \
        -v tools="$([[ -s ${engines:-/none}/tools.tar ]] && echo made)" -v share="$mode_share" -v left="$work/moded" '
        BEGIN {
            for (n = 1; n < 128; n++) code[sprintf("%c", n)] = n
            if (all != "") share = 1
            split("docker podman", both, " ")
            up["docker"] = docker; why["docker"] = ENVIRON["no_docker"]
            up["podman"] = podman; why["podman"] = ENVIRON["no_podman"]
            entries = split(ENVIRON["alone"], lines, "\n")
            for (n = 1; n <= entries; n++) { split(lines[n], parts, "\t"); begins[n] = parts[1]; because[n] = parts[2] }
        }
        # Which entry of that list a test is in.
        function native(test, n) {
            for (n = 1; n <= entries; n++) if (index(test, begins[n]) == 1) return n
            return 0
        }
        # So many tests have no place on an engine.
        function not_tried(engine, what, why) {
            print engine, "session", what, "not tried", why >(untried ".caller")
        }
        # The attacks on the wall are made from containers too, where this run has started those engines itself: a share of them.
        $4 == "cofferdam-cli/wall" && $1 != "user" {
            print $0, "-"
            # The agents of that one have sandboxes of their own.
            if ($5 == "real_agents_and_the_default_list") next
            for (n = 1; n <= 2; n++) {
                if (up[both[n]] != "") print $0, both[n]
                else if (whole != "") attacks[both[n]]++
            }
            next
        }
        ($4 "::" $5) ~ contained {
            entry = native($5)
            if ($1 == "user") { if (tools != "" && !entry) slow++ }
            else if (entry) alone_in[entry]++
            else for (n = 1; n <= 2; n++) {
                if (up[both[n]] != "" && tools != "") print $0, both[n]
                else missed[both[n]]++
            }
        }
        ($4 "::" $5) !~ moded { print $0, "-"; next }
        {
            print $0, "layer"
            for (mode = 1; mode <= 2; mode++) {
                name = $1 $5 (mode == 1 ? "bind" : "copy")
                sum = seed % 65521
                for (n = 1; n <= length(name); n++) sum = (sum * 31 + code[substr(name, n, 1)]) % 65521
                if (int(sum / 16) % share) { print name >left; continue }
                print $0, (mode == 1 ? "bind" : "copy")
            }
        }
        # An engine of an ordinary user copies the whole image for each container (vfs): a minute for each test.
        END {
            count = slow ? split(own, engines, " ") : 0
            for (n = 1; n <= count; n++)
                print engines[n] " of an ordinary user", "session", slow " tests of session", "not tried", \
                    "its containers take a minute each on vfs" >(untried ".user")
            for (m = 1; whole != "" && m <= 2; m++) {
                engine = both[m]
                if (engine in attacks) not_tried(engine, "the attacks on the wall", why[engine])
                if (engine in missed) not_tried(engine, missed[engine] " tests of session", up[engine] == "" ? why[engine] : ENVIRON["no_tools"])
                for (n = 1; n <= entries; n++) {
                    if (!(n in alone_in)) continue
                    sub(/::$/, "", begins[n])
                    not_tried(engine, "`" begins[n] "` of session, " alone_in[n] " tests", because[n])
                }
            }
        }'
}

# --- jobs ------------------------------------------------------------------------------------

# Builds all tests. Writes "<crate directory> <binary> <label>" for each; a label is cofferdam-cli/chaos,
# and the unit tests of a crate are cofferdam-cli/unit.
build_tests() {
    cargo test --quiet --locked --workspace --no-run --message-format=json-render-diagnostics \
        | sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"kind":\["\([a-z]*\)".*"name":"\([^"]*\)","src_path".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1 \4 \2 \3/p' \
        | while read -r directory binary kind name; do
            [[ $kind == test ]] || name=unit
            echo "$directory $binary ${directory##*/}/$name"
        done >"$work/binaries"
    [[ -s $work/binaries ]] || die 'no test binary was found'
}

# Prints a line for each job of one identity: number, identity, directory, binary, label, and the test, or
# `-` for the whole binary. With a filter, only what matches it, each test by itself.
list_jobs() {
    local identity=$1 filter=${2-} directory binary label test number=0 patterns=
    if [[ $identity == user ]]; then patterns=$(left_out_for_user | cut -f1); fi
    while read -r directory binary label; do
        if [[ -z $filter && $label =~ $whole ]]; then
            if [[ $("$binary" --list | tail -n1) == '0 tests,'* ]]; then continue; fi
            echo -
        else
            "$binary" --list --format terse | sed -n 's/: test$//p'
        fi | while read -r test; do
            if [[ $test =~ $helpers ]]; then continue; fi
            if [[ -n $patterns ]] && grep -qE -f <(echo "$patterns") <<<"$label::$test"; then continue; fi
            if [[ -n $filter && ! $label::$test =~ $filter ]]; then continue; fi
            printf '%s\t%s\t%s\t%s\t%s\n' "$identity" "$directory" "$binary" "$label" "$test"
        done
    done <"$work/binaries"
}

# Numbers the jobs, the longest of the last time first: one that starts late would be waited for at the end.
order_jobs() {
    awk -F'\t' -v OFS='\t' -v times="$1" '
        BEGIN { while ((getline line < times) > 0) { split(line, f, "\t"); known[f[1] FS f[2] FS f[3]] = f[4] } }
        {
            key = $1 FS $4 FS $5 ($6 == "-" ? "" : " in mode " $6)
            guess = $4 == "cofferdam-cli/wall" ? 90000 : $4 ~ /chaos|hostile_guest/ ? 20000 : 1000
            print (key in known ? known[key] : guess), $0
        }' | sort -t$'\t' -k1,1nr -s | cut -f2- | awk -v OFS='\t' '{ print NR, $0 }'
}

# --- one job ---------------------------------------------------------------------------------

as_id() {
    setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all -- "$@"
}

# As `as_id`, from `directory`, where $top is in a directory that is closed to others ($closed): the paths of
# the checkout are compiled into the tests, so it is shown at its own place, alone, in a mount namespace.
as_id_in_closed() {
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -c '
        mount --bind "$1" "$2" && mount -t tmpfs -o mode=0755 tmpfs "$3" && mkdir -p "$4" &&
        mount --move "$2" "$4" && cd "$5" && shift 5 && exec "$@"' _ \
        "$shown" "$work/shown" "$closed" "$top" "$directory" \
        setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all -- "$@"
}

# Makes the checkout and the built tests reachable for the ordinary user without building them again.
open_to_user() {
    closed='' shown=$top as_user=as_id
    install -d -o "$user" -g "$user" -m 0700 "$work/home"
    local target=${CARGO_TARGET_DIR:-$top/target} path=$top
    if as_id test -r "$top/Cargo.toml" && as_id test -x "$target/debug"; then return; fi
    [[ $target == "$top"/* ]] || die "$target is closed to uid $user, and is not in the checkout"
    while [[ -n $path ]]; do
        path=${path%/*}
        if [[ -n $path ]] && ! as_id test -x "$path"; then closed=$path; fi
    done
    if [[ -z $closed || ! $(stat -c %A "$top/Cargo.toml") == ???????r* ]]; then
        echo "the files of $top are closed to others: the tests run from a copy"
        shown=$work/copy closed=${closed:-$top}
        copy_tree "$shown"
        cut -d' ' -f2 "$work/binaries" | sed "s|^$top/||" | tar -C "$top" -T - -cf - | tar -C "$shown" -xf -
        cp -a "$target"/debug/cofferdam* "$shown/target/debug/"
        cp -a "$target/agents" "$target/tmp" "$shown/target/"
        if [[ -n ${COFFERDAM_TEST_ALL-} ]]; then cp -a "$target/agents-all" "$shown/target/"; fi
        if [[ -n ${COFFERDAM_TEST_PREVIOUS-} ]]; then
            install -D "$COFFERDAM_TEST_PREVIOUS" "$shown/${COFFERDAM_TEST_PREVIOUS#"$top/"}"
        fi
        chmod -R go+rX,go-w "$shown"
    fi
    mkdir -p "$work/shown"
    as_user=as_id_in_closed
}

# Runs one line of the jobs. What it leaves in its temporary directory is looked at when all have ended.
run_job() {
    local number identity directory binary label test mode start=$EPOCHREALTIME status=0 words=()
    IFS=$'\t' read -r number identity directory binary label test mode <<<"$1"
    local log=$work/log/$number place=$work/$number as=() become=command
    # One test of so many is on the disk.
    if [[ -n $memory && ! $label::$test =~ $of_disks ]] && (((seed + number) % on_disk)); then place=$memory/$number; fi
    # That engine was started before the memory was mounted, in a view of its own.
    if [[ $identity == user && $label::$test =~ $own_podman ]]; then place=$work/$number; fi
    if [[ $test != - ]]; then words=(--exact "$test"); fi
    if [[ $identity == user ]]; then
        install -d -o "$user" -g "$user" -m 0700 "$place"
        become=$as_user
        as=(env -i HOME="$work/home" LANG=C.UTF-8 COFFERDAM_TEST_GIT="$other_git"
            PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin INSTA_UPDATE=no
            INSTA_WORKSPACE_ROOT="$INSTA_WORKSPACE_ROOT" COFFERDAM_TEST_SEED="$seed"
            ${COFFERDAM_TEST_ALL:+COFFERDAM_TEST_ALL=1} ${COFFERDAM_TEST_NAMED:+COFFERDAM_TEST_NAMED=1}
            ${COFFERDAM_TEST_NO_SKIP:+COFFERDAM_TEST_NO_SKIP=1})
        if [[ -n ${rootless_host-} && ( -n ${COFFERDAM_TEST_ALL-} || $label::$test =~ $own_podman ) ]]; then
            as+=(CONTAINER_HOST="$rootless_host")
        fi
        if [[ -n ${COFFERDAM_TEST_PREVIOUS-} ]]; then as+=(COFFERDAM_TEST_PREVIOUS="$COFFERDAM_TEST_PREVIOUS"); fi
        if [[ -n ${rootless_docker_host-} ]]; then as+=(DOCKER_HOST="$rootless_docker_host"); fi
    else
        # Open to others, as /tmp is: some tests become the ordinary user by themselves.
        mkdir -m 1777 "$place"
        as=(env)
    fi
    # Of this job alone, until it has ended. Some tests become the ordinary user by themselves.
    : >"$log.skipped"
    chmod 0666 "$log.skipped"
    as+=(TMPDIR="$place" COFFERDAM_TEST_SKIPPED="$log.skipped" COFFERDAM_TEST_VERDICTS="$work/verdicts.$identity")
    case $mode in
        -) if [[ $label == cofferdam/session ]]; then as+=(COFFERDAM_TEST_MODE=named); fi ;;
        docker | podman) as+=(COFFERDAM_TEST_SANDBOX="$mode") test+=" in mode $mode" ;;
        *) as+=(COFFERDAM_TEST_MODE="$mode") test+=" in mode $mode" ;;
    esac
    if [[ $label == cofferdam-cli/wall && -n $shares ]]; then
        case $identity.$mode in
            *.docker) as+=(COFFERDAM_TEST_SHARE="$wall_docker") ;;
            *.podman) as+=(COFFERDAM_TEST_SHARE="$wall_podman") ;;
            user.*) as+=(COFFERDAM_TEST_SHARE="$wall_user") ;;
        esac
    fi
    (
        [[ $identity == user && -n $closed ]] || cd "$directory"
        "$become" timeout --foreground --kill-after=10 "$limit" "${as[@]}" "$binary" "${words[@]}"
    ) </dev/null >"$log" 2>&1 || status=$?
    # A name that fits no test would pass without having run.
    if ((status == 0)) && ! grep -q '^test result: ok\. [1-9]' "$log"; then status=no-test; fi
    cat "$log.skipped" >>"$work/skipped.$identity"
    if [[ $label == cofferdam/session && $status == 0 ]]; then say_session "$identity" "$mode" "$test" "$log.skipped"; fi
    local took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$identity" "$label" "$test" "$took" "$status" "$number" >>"$work/results"
    if [[ $status != 0 ]]; then
        local why="status $status"
        if [[ $status == 12[47] || $status == 137 ]]; then why="not within $limit s"; fi
        printf -- '-- FAILED as %s (%s): %s %s\n%s\n' "$identity" "$why" "$label" "$test" "$(tail -n 200 "$log")"
    fi
}

# Adds what became of a session's test to the verdicts: passed, or not tried and why, also where only a part of it was left out.
say_session() { # identity, mode, test, what it skipped
    local provider=native verdict=passed why
    if [[ $2 == docker || $2 == podman ]]; then provider=$2; fi
    if [[ $1 == user ]]; then provider+=' of an ordinary user'; fi
    why=$(cut -f2 "$4" | sort -u | paste -sd ';')
    if [[ -n $why ]]; then verdict='not tried'; fi
    printf '%s\tsession\t%s\t%s\t%s\n' "$provider" "$3" "$verdict" "$why" >>"$work/verdicts.$1"
}

# --- all jobs --------------------------------------------------------------------------------

# Runs what $work/jobs says; afterwards $work/results has a line for each.
run_pool() {
    local jobs=${COFFERDAM_TEST_JOBS:-$(($(nproc) * 3))}
    mkdir -p "$work/log"
    : >"$work/results"
    other_git=git
    if [[ -x /usr/bin/git ]]; then other_git=/usr/bin/git; fi
    # Also those of the caller's tests append that become the ordinary user.
    local name
    for name in skipped verdicts; do
        : >"$work/$name.caller"
        : >"$work/$name.user"
        chmod 0666 "$work/$name".*
    done
    for name in caller user; do
        if [[ -s $work/untried.$name ]]; then cat "$work/untried.$name" >"$work/verdicts.$name"; fi
    done
    export -f run_job say_session as_id as_id_in_closed
    # Whoever names tests, or only the ordinary user, has all of them.
    shares=yes
    if [[ -n $repeat${COFFERDAM_TEST_ALL-} || ${identities[*]} == user ]]; then shares=; fi
    if [[ -n $repeat ]]; then export COFFERDAM_TEST_NAMED=1; fi
    export own_podman top work memory on_disk of_disks user other_git seed limit closed shown as_user shares wall_docker wall_podman wall_user
    xargs -d '\n' -n 1 -P "$jobs" -a "$work/jobs" bash -c 'run_job "$1"' _
}

# A test that fails beside the others is tried again when nothing else runs, three times: where all pass, it is said to be unsteady
# (`say_unsteady`), and fails nobody's work. Where many fail, something is broken: then none is tried again.
most_again=6 times_again=3
again_alone() {
    local line number
    : >"$work/unsteady"
    awk -F'\t' '$5 != "0" { print $6 }' "$work/results" >"$work/failed"
    if [[ ! -s $work/failed || -n $repeat || -n $once ]] || (($(wc -l <"$work/failed") > most_again)); then return 0; fi
    say "$(wc -l <"$work/failed") failed beside the others: each once more, alone"
    mv "$work/results" "$work/first"
    : >"$work/results"
    while read -r number; do
        line=$(awk -F'\t' -v n="$number" '$1 == n' "$work/jobs")
        passes_alone "$number" "$line" || true
    done <"$work/failed"
    # The time and the verdict of the last try.
    awk -F'\t' -v OFS='\t' '
        NR == FNR { last[$6] = $0; next }
        $6 in last { print last[$6]; next }
        { print }' "$work/results" "$work/first" >"$work/both"
    mv "$work/both" "$work/results"
    awk -F'\t' -v OFS='\t' 'NR == FNR { failed[$1]; next } $6 in failed && $5 == "0" { print $1, $2, $3 }' \
        "$work/failed" "$work/results" >"$work/unsteady"
}

# Whether the job $2, of the number $1, passes each time. What it left when it failed is taken away first.
passes_alone() {
    local n process
    for ((n = 0; n < times_again; n++)); do
        while read -r process _; do
            kill -9 "$process" 2>/dev/null || true
        done < <(work=$work/$1 ours_alive; if [[ -n $memory ]]; then work=$memory/$1 ours_alive; fi)
        rm -rf -- "${work:?}/$1" ${memory:+"$memory/$1"}
        run_job "$2"
        [[ $(tail -n 1 "$work/results" | cut -f5) == 0 ]] || return 1
    done
}

# Both processors are busy until `end_load`.
loads=()
start_load() {
    local n
    for ((n = 0; n < $(nproc); n++)); do
        (while :; do :; done) &
        loads+=($!)
    done
}
end_load() {
    if ((${#loads[@]})); then
        kill "${loads[@]}" 2>/dev/null || true
        wait "${loads[@]}" 2>/dev/null || true
        loads=()
    fi
}

# --- what is said at the end -----------------------------------------------------------------

named() { # identity, label, test
    local who=
    if [[ $1 == user ]]; then who=" as uid $user"; fi
    if [[ $3 == - ]]; then echo "$2$who"; else echo "$2 $3$who"; fi
}

say_times() {
    local identity label test took
    say 'slowest'
    sort -t$'\t' -k4,4nr "$work/results" | awk 'NR <= 12' | while IFS=$'\t' read -r identity label test took _; do
        printf '%7d.%d s  %s\n' $((took / 1000)) $((took % 1000 / 100)) "$(named "$identity" "$label" "$test")"
    done
}

# A line for each thing that did not run, with why.
say_skipped() {
    local lines
    lines=$({
        if ((${#unchecked[@]})); then printf '%s\n' "${unchecked[@]}"; fi
        sed "s/^/as $(id -un): /; s/\t/: /" "$work/skipped.caller"
        sed "s/^/as uid $user: /; s/\t/: /" "$work/skipped.user"
        if [[ -n ${engines:+${CONTAINER_HOST-}} && -n ${DOCKER_HOST-} && -z $repeat${COFFERDAM_TEST_ALL-} ]]; then
            echo "of the command's tests in containers two of three in Podman (\`--all\` runs them there too)"
        fi
        if [[ -s $work/moded ]]; then
            echo "$(grep -c . "$work/moded") tests in a mode that the seed left out (\`--all\` runs them)"
        fi
        if [[ -s $work/halved ]]; then
            cut -f1 "$work/halved" | sort | uniq -c | while read -r count identity; do
                echo "$(named "$identity" "$count tests" -) that the seed left out (\`--all\` runs them)"
            done
        fi
    } | sort -u)
    say "skipped: $(grep -c . <<<"$lines" || true)"
    [[ -z $lines ]] || echo "$lines"
}

# What passed only when it was alone.
say_unsteady() {
    [[ -s $work/unsteady ]] || return 0
    say "unsteady: $(wc -l <"$work/unsteady")"
    while IFS=$'\t' read -r identity label test; do
        echo "$(named "$identity" "$label" "$test"): failed beside the others, and passed $times_again times of $times_again alone"
    done <"$work/unsteady"
}

# For each provider how many attacks and checks held, and a line for each that ran in part or not at all. What failed is said apart.
# $work/verdicts.* have lines of provider, kind, name, what became of it, and why; `--repeat` has some more than once.
say_verdicts() {
    local lines provider
    lines=$({
        cat "$work/verdicts.caller"
        sed "s/^[^\t]*/& (uid $user)/" "$work/verdicts.user"
    } | sort -u)
    [[ -n $lines ]] || return 0
    say 'providers'
    cut -f1 <<<"$lines" | uniq | while IFS= read -r provider; do
        awk -F'\t' -v provider="$provider" '
            $1 != provider { next }
            { count[$2, $4]++ }
            $5 != "" { why = why "    " $4 ": " $3 ": " $5 "\n" }
            END {
                line = provider ": " count["check", "passed"] + 0 " checks passed, " count["check", "in part"] + 0 \
                    " in part, " count["check", "not tried"] + 0 " not tried"
                attacks = count["attack", "passed"]
                if (attacks) line = line "; " attacks " attacks on the wall refused, and the control of each fired"
                sessions = count["session", "passed"]
                if (sessions) line = line "; " sessions " tests of session passed"
                printf "%s\n%s", line, why
            }' <<<"$lines"
    done
}

# Processes that have a file or a directory of ours open, name one, or see one: the first of a sandbox does nothing else.
ours_alive() {
    local process text
    for process in /proc/[0-9]*; do
        [[ ${process##*/} != "$$" && ${process##*/} != "$BASHPID" ]] || continue
        text=$({ tr '\0' ' ' <"$process/cmdline"; readlink "$process/cwd" "$process/root" "$process"/fd/*; cut -d' ' -f4 "$process/mountinfo"; } 2>/dev/null) || true
        if [[ $text == *"$work/"* ]]; then echo "${process##*/} ${text%%$'\n'*}"; fi
    done
}

# What an engine's directory $1 has of single sandboxes: where they were met, and their mounts. A holder that waits is nobody's yet.
of_one() {
    find "$1"/{meet,mounts} -mindepth 1 -maxdepth 1 ! -name lock ! -name 'ready-*' ! -name 'begins-*' 2>/dev/null || true
}

# Nothing stays: no file in the temporary directory, no process. What ends by itself has a moment.
check_leftovers() {
    local place number left='' processes n
    for ((n = 0; n < 50; n++)); do
        processes=$(ours_alive)
        [[ -n $processes ]] || break
        sleep 0.2
    done
    for place in "$work"/[0-9]* ${memory:+"$memory"/[0-9]*}; do
        [[ -e $place ]] || continue
        number=${place##*/}
        # A dockerd that waits for its containerd has that write down what it is at.
        rm -f -- "$place"/containerd.*.stacks.log
        # What an engine's sandboxes are given is one for all, and stays; what was made for one of them does not.
        if [[ -d $place/engines && -z $(of_one "$place/engines") ]]; then rm -rf -- "$place/engines"; fi
        if ! rmdir "$place" 2>/dev/null; then
            local job=()
            IFS=$'\t' read -r -a job < <(awk -F'\t' -v n="$number" '$1 == n' "$work/jobs")
            if [[ ${job[6]} != - ]]; then job[5]+=" in mode ${job[6]}"; fi
            left+="$(named "${job[1]}" "${job[4]}" "${job[5]}") left $(ls -A "$place" | head -n 5 | tr '\n' ' ')"$'\n'
        fi
    done
    if [[ -n $processes || -n $left ]]; then
        say 'left behind'
        printf '%s' "$left"
        [[ -z $processes ]] || echo "$processes"
        return 1
    fi
}

# Writes to the file $1 which of root's tests take long. Those that were not run this time stay as they were, where they are still
# there.
write_slow() {
    touch "$1"
    list_jobs caller | awk -F'\t' '{ print $4 "::" $5 }' | LC_ALL=C sort >"$work/there"
    awk -F'\t' -v seconds="$slow_seconds" '
        NR == FNR {
            if ($1 != "caller" || $3 == "-") next
            sub(/ in mode [a-z]*$/, "", $3)
            ran[$2 "::" $3] = 1
            if ($4 > seconds * 1000) slow[$2 "::" $3] = 1
            next
        }
        !($0 in ran) { slow[$0] = 1 }
        END { for (name in slow) print name }' "$work/results" "$1" \
        | LC_ALL=C sort | LC_ALL=C comm -12 - "$work/there" >"$work/slow"
    cat "$work/slow" >"$1"
}

# Runs the pool, says what there is to say, writes the file $times for the next one, and fails when anything is wrong.
run_and_report() {
    local bad=0 failed
    run_pool || bad=1
    end_load
    again_alone
    if [[ -n $times ]]; then cut -f1-4 "$work/results" >"$times"; fi
    failed=$(awk -F'\t' '$5 != "0"' "$work/results" | sort)
    say_times
    say_skipped
    say_verdicts
    say_unsteady
    check_leftovers || bad=1
    if [[ $(wc -l <"$work/results") != $(wc -l <"$work/jobs") ]]; then
        echo 'not every job has ended'
        bad=1
    fi
    if [[ -n $failed ]]; then
        say "failed: $(wc -l <<<"$failed") of $(wc -l <"$work/jobs") (seed $seed)"
        cut -f1-3 <<<"$failed" | uniq -c | while read -r count identity label test; do
            echo "$count × $(named "$identity" "$label" "$test")"
        done
        bad=1
    fi
    ((bad == 0)) || die 'tests failed'
}
