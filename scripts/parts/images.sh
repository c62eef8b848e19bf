# shellcheck shell=bash
# Builds the full base image and starts every tool in it once, in a sandbox. Read by scripts/test.

# What is started, and the argument that has it say its version.
tools=(
    'aggregate -h' 'ast-grep --version' 'bash --version' 'cargo --version' 'chromium --version' 'claude --version'
    'codex --version' 'corepack --version' 'curl --version' 'delta --version' 'dig -v' 'file --version'
    'fzf --version' 'gcc --version' 'gem --version' 'gh --version' 'git --version' 'go version' 'gofmt -h'
    'gpg --version' 'ip -V' 'ipset --version' 'iptables --version' 'jq --version' 'less --version' 'make --version'
    'man --version' 'nano --version' 'node --version' 'npm --version' 'npx --version' 'patch --version'
    'pip --version' 'pkg-config --version' 'ps --version' 'python3 --version' 'rg --version' 'ruby --version'
    'rustc --version' 'rustfmt --version' 'ssh -V' 'tmux -V' 'unzip -v' 'venv' 'vim --version' 'xz --version'
    'yarn --version' 'zip -v' 'zsh --version'
)

# What is no program of its own.
declare -A started_by=([venv]='python3 -m venv /tmp/venv && /tmp/venv/bin/pip --version')

# With what code those end that do not end with 0: one knows no such argument, and the others may look at no network.
declare -A ends_with=([aggregate]=1 [ipset]=1 [iptables]=1)

# As `engine`, docker or podman, has it: a table for docs/images.md.
images() {
    local engine=$1 place cofferdam=${CARGO_TARGET_DIR:-$top/target}/release/cofferdam began took digest tool name said code bad=0
    say 'build the command'
    cargo build --quiet --locked --release --package cofferdam-cli
    place=$(mktemp -d /tmp/cdi.XXXXXX)
    export COFFERDAM_HOME=$place/home
    git init --quiet "$place/repository"
    git -C "$place/repository" -c user.name=test -c user.email=test@localhost commit --quiet --allow-empty --message start
    say "the full image on $engine"
    began=$SECONDS
    "$cofferdam" build-base --sandbox "$engine" --base-image debian:bookworm-slim --tag full >"$place/built" 2>"$place/log" \
        || { tail -n 20 "$place/log"; die 'the image was not built'; }
    took=$((SECONDS - began))
    (cd "$place/repository" && "$cofferdam" create tools --sandbox "$engine" --image cofferdam-base:full --network none) >/dev/null
    # A unit test compares it with what the command would build from.
    digest=$(cd "$top/crates/cofferdam/src/image/base" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum | sha256sum)
    printf '%s\n\nfrom files with the SHA-256 `%s`\n\n| tool | says |\n|---|---|\n' \
        "$(head -n1 "$place/built") ($took s)" "${digest%% *}"
    for tool in "${tools[@]}"; do
        name=${tool%% *} code=0
        tool=${started_by[$name]:-$tool}
        (cd "$place/repository" && "$cofferdam" exec tools -- bash -c "{ $tool; } 2>&1" </dev/null) >"$place/said" || code=$?
        said=$(grep -m1 '[0-9A-Za-z]' "$place/said" | cut -c1-80) || true
        if [[ -z $said || $said == *'not found'* || $said == error:* ]]; then bad=$((bad + 1)); fi
        printf '| `%s` | %s |\n' "$name" "${said//|/\\|}"
        if ((code != ${ends_with[$name]:-0})); then
            bad=$((bad + 1))
            echo "$name ends with $code"
        fi
    done
    said=$(cd "$place/repository" && "$cofferdam" exec tools -- bash -c \
        'chromium --headless --no-sandbox --disable-gpu --dump-dom "data:text/html,<p>a page</p>" 2>/dev/null' </dev/null)
    [[ $said == *'<p>a page</p>'* ]] || { bad=$((bad + 1)); echo "chromium shows no page: $said"; }
    said=$(cd "$place/repository" && "$cofferdam" exec tools -- sh -c 'jq ".packages | length" /usr/local/share/cofferdam/packages.spdx.json')
    ((said > 100)) || { bad=$((bad + 1)); echo "the list of packages has $said"; }
    printf '\n%s packages in its list\n' "$said"
    said=$(cd "$place/repository" && "$cofferdam" exec tools -- sh -c \
        'cd /usr/local/share/oh-my-zsh && if [ -e commit ]; then cat commit
        else cmp oh-my-zsh.sh ../cofferdam/shell/stand-in.zsh && echo "the small one in its place"; fi') || said=
    [[ -n $said ]] || { bad=$((bad + 1)); echo 'neither oh-my-zsh nor what takes its place is in it'; }
    printf 'oh-my-zsh: %s\n' "$said"
    (cd "$place/repository" && "$cofferdam" delete --force tools) >/dev/null 2>&1
    rm -rf -- "$place"
    ((bad == 0)) || die "$bad tools do not work"
}
