# shellcheck shell=bash
# Engines for the tests, of this run alone: their daemons, images and containers are below a directory of the run's, and end with it.
# Read by scripts/test, which sets `work`. Where one cannot be started its tests say so, and are counted as skipped.

# Where they are. Short: paths of sockets are below it.
engines=
# What is not there, and why.
declare -A absent=()
# The Podman of the ordinary user as whom tests run, and with `--all` their Docker.
rootless_host=
rootless_docker_host=

# Starts Docker and Podman, as root; anybody else has what this machine has.
engines_up() {
    ((EUID == 0)) || return 0
    engines=$(mktemp -d /tmp/cde.XXXXXX)
    chmod 0755 "$engines"
    say 'engines'
    make_images
    docker_up || is_absent docker 'Docker does not start here' "$engines/docker.log"
    podman_up || is_absent podman 'Podman does not start here' "$engines/podman.log"
    rootless_up || is_absent 'podman of an ordinary user' 'Podman does not start here for an ordinary user' "$engines/rootless/log"
    if [[ -n ${COFFERDAM_TEST_ALL-} ]]; then
        rootless_docker_up \
            || is_absent 'docker of an ordinary user' 'Docker does not start here for an ordinary user' "$engines/rootless/docker.log"
    fi
}

# Nothing runs on what $1 names: it is said now and at the end, with the last line of $3. With `--no-skip` that is a failure.
is_absent() {
    local why
    why="$2: $({ tail -n1 "$3" 2>/dev/null || echo 'it was not tried, a program is missing'; } | tr '\t' ' ')"
    if [[ -n ${COFFERDAM_TEST_NO_SKIP-} ]]; then die "$why"; fi
    echo "$why"
    absent[$1]=$why
    unchecked+=("$1: $why")
}

engines_down() {
    [[ -n $engines ]] || return 0
    local file id
    # That one goes on as a child of who was started.
    for file in "$engines"/rootless/*group; do
        if [[ -s $file ]]; then kill -- "-$(<"$file")" 2>/dev/null || true; fi
    done
    for file in "$engines"/*.pid; do
        [[ -s $file ]] || continue
        # A daemon takes its file away itself.
        id=$(<"$file")
        kill "$id" 2>/dev/null || true
        for _ in {1..100}; do kill -0 "$id" 2>/dev/null || break; sleep 0.1; done
    done
    # Whatever they left mounted is theirs.
    awk -v below="$engines/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | sort -r \
        | while read -r place; do umount -l "$place" 2>/dev/null || true; done
    rm -rf --one-file-system -- "$engines"
    engines=
}

# A program of this machine's with its libraries, in the directory of an image; a link is in `bin`.
with_program() {
    local root=$1 name=$2 file
    rm -f "$root/bin/$name"
    cp -L "$(command -v "$name")" "$root/bin/$name"
    for file in $(ldd "$(command -v "$name")" | grep -o '/[^ ]*'); do
        mkdir -p "$root${file%/*}"
        cp -L "$file" "$root$file"
    done
}

# Archives of three images: a shell, which is busybox, one static program with many names; the same with this machine's git; and
# that with its bash and zsh.
make_images() {
    local root=$engines/root name
    mkdir -p "$root"/{bin,etc,tmp}
    chmod 1777 "$root/tmp"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in $(busybox --list); do
        [[ $name == busybox ]] || ln -s busybox "$root/bin/$name"
    done
    tar -C "$root" -cf "$engines/busybox.tar" .
    with_program "$root" git
    tar -C "$root" -cf "$engines/git.tar" .
    for name in bash zsh; do
        if command -v "$name" >/dev/null; then with_program "$root" "$name"; fi
    done
    # What zsh loads lies where this machine has it.
    for name in /usr/lib/*/zsh /usr/share/zsh; do
        if [[ -d $name ]]; then mkdir -p "$root${name%/*}" && cp -a "$name" "$root$name"; fi
    done
    # An image has its own word for them, as Debian's and most others do.
    mkdir -p "$root/etc/zsh"
    echo "EDITOR=of-image OF_IMAGE=yes PS1='of-image> '" | tee "$root/etc/zsh/zshrc" >"$root/etc/bash.bashrc"
    tar -C "$root" -cf "$engines/shells.tar" .
    rm -rf -- "$root"
    # What images are built on, where those are tried too: no registry of images is asked.
    if [[ -n ${COFFERDAM_TEST_ALL-} ]]; then
        mmdebstrap --quiet --variant=minbase bookworm "$engines/debian.tar" 2>"$engines/debian.log" \
            || is_absent debian 'no image of Debian can be made here' "$engines/debian.log"
        mmdebstrap --quiet --variant=minbase --include=git,perl,procps,python3 bookworm "$engines/tools.tar" 2>"$engines/tools.log" \
            || is_absent tools 'no image with tools of Debian can be made here' "$engines/tools.log"
        # Of one that was not finished no part is used.
        for name in debian tools; do
            if [[ -n ${absent[$name]-} ]]; then rm -f -- "$engines/$name.tar"; fi
        done
    fi
}

# A daemon that changes nothing of the machine's network: sandboxes need none of an engine's.
docker_up() {
    local socket=$engines/docker.sock name
    dockerd --host "unix://$socket" --data-root "$engines/docker" --exec-root "$engines/exec" \
        --pidfile "$engines/docker.pid" --bridge none --iptables=false --ip6tables=false \
        --add-runtime "other=$(command -v runc)" --add-runtime runsc=/bin/false \
        >"$engines/docker.log" 2>&1 </dev/null &
    local daemon=$!
    for _ in {1..300}; do
        if docker --host "unix://$socket" version >/dev/null 2>&1; then break; fi
        kill -0 "$daemon" 2>/dev/null || return 1
        sleep 0.1
    done
    export DOCKER_HOST=unix://$socket
    for name in busybox git shells; do
        docker import --change 'ENV PATH=/bin' "$engines/$name.tar" "$name:latest" >/dev/null || return 1
    done
    if [[ -s $engines/tools.tar ]]; then
        docker import "$engines/tools.tar" tools:latest >/dev/null || return 1
    fi
    if [[ -s $engines/debian.tar ]]; then
        docker import "$engines/debian.tar" debian:bookworm-slim >/dev/null || return 1
    fi
}

podman_up() {
    local socket=$engines/podman.sock name
    cat >"$engines/containers.conf" <<END
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
END
    cat >"$engines/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$engines/podman"
runroot = "$engines/podman-run"
END
    export CONTAINERS_CONF=$engines/containers.conf CONTAINERS_STORAGE_CONF=$engines/storage.conf
    # Its monitors write where it was started.
    (cd "$engines" && exec podman system service --time 0 "unix://$socket") >"$engines/podman.log" 2>&1 </dev/null &
    echo $! >"$engines/podman.pid"
    for _ in {1..100}; do
        [[ -S $socket ]] && break
        sleep 0.1
    done
    [[ -S $socket ]] || return 1
    for name in busybox git shells; do
        podman import --change 'ENV PATH=/bin' "$engines/$name.tar" "docker.io/library/$name:latest" >/dev/null 2>&1 || return 1
    done
    if [[ -s $engines/tools.tar ]]; then
        podman import "$engines/tools.tar" docker.io/library/tools:latest >/dev/null 2>&1 || return 1
    fi
    if [[ -s $engines/debian.tar ]]; then
        podman import "$engines/debian.tar" docker.io/library/debian:bookworm-slim >/dev/null 2>&1 || return 1
    fi
    export CONTAINER_HOST=unix://$socket
}

# Podman of the ordinary user as whom tests run, who has a name and ids to give away in its own view of /etc alone.
rootless_up() {
    local own=$engines/rootless name
    mkdir -p "$own"/{etc,run,graph,runroot,home/.config/containers}
    for name in passwd group subuid subgid; do
        if [[ -f /etc/$name ]]; then cp "/etc/$name" "$own/etc/$name"; else : >"$own/etc/$name"; fi
    done
    echo "cofferdam-test:x:$user:$user::$own/home:/bin/sh" >>"$own/etc/passwd"
    echo "cofferdam-test:x:$user:" >>"$own/etc/group"
    # By name: one of its tools finds an entry by number twice.
    echo "cofferdam-test:2000000000:65536" | tee -a "$own/etc/subuid" >>"$own/etc/subgid"
    cp "$engines/containers.conf" "$own/home/.config/containers/"
    cat >"$own/home/.config/containers/storage.conf" <<END
[storage]
driver = "vfs"
graphroot = "$own/graph"
runroot = "$own/runroot"
END
    chown -R "$user:$user" "$own"/{run,graph,runroot,home}
    chmod 0700 "$own"/{run,home}
    (rootless podman system service --time 0 "unix://$own/run/podman.sock") >"$own/log" 2>&1 </dev/null &
    echo $! >"$own/group"
    for _ in {1..100}; do
        [[ -S $own/run/podman.sock ]] && break
        sleep 0.1
    done
    [[ -S $own/run/podman.sock ]] || return 1
    for name in busybox git; do
        (rootless podman import --change 'ENV PATH=/bin' "$engines/$name.tar" "docker.io/library/$name:latest") >>"$own/log" 2>&1 || return 1
    done
    if [[ -s $engines/debian.tar ]]; then
        (rootless podman import "$engines/debian.tar" docker.io/library/debian:bookworm-slim) >>"$own/log" 2>&1 || return 1
    fi
    export rootless_host=unix://$own/run/podman.sock
}

# Docker of the same user. It gets no Debian: on vfs each step of a build copies the whole image, and a build of the base took longer than its
# three minutes on a machine that was busy.
rootless_docker_up() {
    local own=$engines/rootless name
    [[ -d $own/run ]] && command -v rootlesskit >/dev/null || return 1
    install -d -o "$user" -g "$user" -m 0700 "$own/docker"
    # shellcheck disable=SC2016
    (rootless rootlesskit --state-dir="$own/run/kit" --net=host --copy-up=/etc --copy-up=/run sh -c '
        rm -rf /run/docker /run/containerd /run/xtables.lock
        exec dockerd --rootless --host "unix://$1/run/docker.sock" --data-root "$1/docker" --exec-root "$1/run/exec" \
            --pidfile "$1/run/docker.pid" --storage-driver vfs --bridge none --iptables=false --ip6tables=false' sh "$own"
    ) >"$own/docker.log" 2>&1 </dev/null &
    echo $! >"$own/docker.group"
    local socket=unix://$own/run/docker.sock
    for _ in {1..200}; do
        if docker --host "$socket" version >/dev/null 2>&1; then break; fi
        sleep 0.1
    done
    for name in busybox git; do
        docker --host "$socket" import --change 'ENV PATH=/bin' "$engines/$name.tar" "$name:latest" >/dev/null || return 1
    done
    export rootless_docker_host=$socket
}

# Becomes a program of that user, in that view.
rootless() {
    local own=$engines/rootless
    # shellcheck disable=SC2016
    exec unshare --mount --propagation private -- sh -c '
        own=$1 user=$2; shift 2
        for name in passwd group subuid subgid; do
            if [ -e "/etc/$name" ]; then mount --bind "$own/etc/$name" "/etc/$name" || exit 1; fi
        done
        cd "$own/home" && exec env -i PATH="$PATH" HOME="$own/home" XDG_RUNTIME_DIR="$own/run" \
            setsid setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"' sh "$own" "$user" "$@"
}
