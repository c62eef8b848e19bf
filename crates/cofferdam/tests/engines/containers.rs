//! One container: what is in it, what it may do, and how it ends.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use cofferdam::names::{RepoPath, SandboxId};
use cofferdam::sandbox::engine::Kind;
use cofferdam::sandbox::{
    Access, BindMountProvider, ExecRequest, Exit, Mount, MountSource, SandboxError, TerminalSize,
};
use cofferdam_lab::skip;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::world::{World, each, engine, finish, mount, ok, spec, try_engine};

each! {
    async fn a_program_has_no_right_that_an_ordinary_one_has_not(world: World) {
        let sandbox = world.create(&spec()).await.unwrap();
        let status = ok(&*sandbox, "cat /proc/self/status").await;
        for line in [
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapAmb:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "{line}: {status}");
        }
        let ids = ok(&*sandbox, "id -u; id -g; id -un; echo $HOME").await;
        let ids: Vec<&str> = ids.lines().collect();
        assert!(ids[0] != "0" && ids[1] != "0", "{ids:?}");
        assert_eq!(ids[2..4], ["agent", "/home/agent"]);
        // Its init is not its own to look into.
        assert!(ok(&*sandbox, "ls /proc/1/root/ 2>&1 || echo refused").await.contains("refused"));
        ok(&*sandbox, "cd; echo x >x; cd /tmp; echo x >x; chmod +x x").await;
        sandbox.close().await.unwrap();
    }
}

each! {
    async fn it_sees_what_it_was_given_and_nothing_below_that(world: World) {
        let tree = world.directory("tree");
        fs::create_dir_all(tree.join("guarded/deep")).unwrap();
        fs::create_dir_all(tree.join("hidden")).unwrap();
        fs::write(tree.join("file"), "from the host\n").unwrap();
        fs::write(tree.join("hidden/secret"), "x").unwrap();
        let again = |target: &str, access| Mount {
            source: MountSource::Target,
            target: target.into(),
            access,
        };
        let mut spec = spec();
        spec.workdir = "/workspace/tree".into();
        spec.mounts = vec![
            mount(&tree, "/workspace/tree", Access::ReadWrite),
            again("/workspace/tree/guarded", Access::ReadOnly),
            again("/workspace/tree/file", Access::ReadOnly),
            Mount {
                source: MountSource::Nothing,
                target: "/workspace/tree/hidden".into(),
                access: Access::ReadOnly,
            },
        ];
        let sandbox = world.create(&spec).await.unwrap();
        assert_eq!(ok(&*sandbox, "cat file; pwd; ls -A hidden").await, "from the host\n/workspace/tree\n");
        for refused in ["echo >file", "echo >guarded/x", "echo >guarded/deep/x", "echo >hidden/x", "mv guarded other", "rm -r hidden"] {
            let said = ok(&*sandbox, &format!("({refused}) 2>&1 && echo went || true")).await;
            assert!(!said.contains("went"), "{refused}: {said}");
        }
        ok(&*sandbox, "echo from inside >new").await;
        let new = tree.join("new");
        assert_eq!(fs::read_to_string(&new).unwrap(), "from inside\n");
        // Whoever it is inside: on the host it is the caller's.
        assert_eq!(new.metadata().unwrap().uid(), rustix::process::geteuid().as_raw());
        sandbox.close().await.unwrap();
        // Nothing was made on the host that was not there.
        let mut names: Vec<_> = fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "guarded", "hidden", "new"]);
    }
}

each! {
    async fn what_cannot_be_mounted_as_it_is_meant_is_refused(world: World) {
        let tree = world.directory("tree");
        fs::create_dir(tree.join("real")).unwrap();
        symlink("/etc", tree.join("link")).unwrap();
        let missing = tree.join("missing");
        let mounts = |more: Mount| vec![mount(&tree, "/workspace", Access::ReadWrite), more];
        for (more, part) in [
            (mount(tree.join("real"), "/workspace/missing", Access::ReadOnly), "does not exist"),
            (mount(tree.join("real"), "/workspace/link/x", Access::ReadOnly), "symlink"),
            (mount(tree.join("link"), "/x", Access::ReadOnly), "no directory or regular file"),
            (mount(&missing, "/x", Access::ReadOnly), "missing"),
        ] {
            let mut spec = spec();
            spec.mounts = mounts(more);
            let error = world.create(&spec).await.unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!missing.exists());
    }
}

each! {
    async fn programs_streams_terminals_and_signals_are_those_of_every_sandbox(world: World) {
        let sandbox = world.create(&spec()).await.unwrap();
        let error = sandbox.exec(ExecRequest::new(["no-such-program"])).await.unwrap_err();
        assert!(matches!(error, SandboxError::Program { .. }), "{error}");
        let mut request = ExecRequest::new(["sh", "-c", "cat; echo err >&2; exit 7"]);
        request.stdin = true;
        request.environment.insert("GIVEN".into(), "x".into());
        let mut run = sandbox.exec(request).await.unwrap();
        let mut stdin = run.take_stdin().unwrap();
        stdin.write_all(b"in\n").await.unwrap();
        drop(stdin);
        let (exit, out, err) = finish(run).await;
        assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Code(7), "in\n", "err\n"));
        let mut request = ExecRequest::new(["sh", "-c", "tty; stty size; read line; echo got $line"]);
        request.terminal = Some(TerminalSize { rows: 33, columns: 101 });
        let mut run = sandbox.exec(request).await.unwrap();
        let mut terminal = run.take_terminal().unwrap();
        terminal.input.write_all(b"hello\n").await.unwrap();
        let mut text = String::new();
        // A terminal ends with EIO.
        let _ = terminal.output.read_to_string(&mut text).await;
        run.wait().await.unwrap();
        assert!(text.contains("/dev/pts/") && text.contains("33 101") && text.contains("got hello"), "{text}");
        let mut run = sandbox.exec(ExecRequest::new(["sleep", "1000"])).await.unwrap();
        run.kill(15).await.unwrap();
        assert_eq!(run.wait().await.unwrap(), Exit::Signal(15));
        sandbox.close().await.unwrap();
    }
}

each! {
    async fn one_that_lives_on_is_found_again_stands_still_and_ends(world: World) {
        let (spec, handle) = world.living();
        let sandbox = world.create(&spec).await.unwrap();
        assert!(matches!(world.create(&spec).await, Err(SandboxError::Running)));
        drop(sandbox);
        let sandbox = world.engine.open(&handle).await.unwrap();
        ok(&*sandbox, "echo kept >/tmp/kept").await;
        sandbox.pause().await.unwrap();
        let refused = sandbox.exec(ExecRequest::new(["true"])).await;
        assert!(matches!(refused, Err(SandboxError::Paused)));
        assert!(sandbox.status().await.unwrap().paused);
        sandbox.resume().await.unwrap();
        assert_eq!(ok(&*sandbox, "cat /tmp/kept").await, "kept\n");
        assert_eq!(world.containers(&spec), 1);
        world.engine.remove(&handle).await.unwrap();
        assert_eq!(world.containers(&spec), 0);
        assert!(matches!(world.engine.open(&handle).await, Err(SandboxError::NotRunning)));
        // What is gone is no error.
        world.engine.remove(&handle).await.unwrap();
    }
}

each! {
    async fn one_ends_with_its_maker(world: World) {
        let spec = spec();
        let sandbox = world.create(&spec).await.unwrap();
        assert_eq!(world.containers(&spec), 1);
        drop(sandbox);
        world.eventually("its container goes", || world.containers(&spec) == 0).await;
    }
}

each! {
    async fn limits_hold(world: World) {
        let mut spec = spec();
        spec.limits.processes = Some(40);
        spec.limits.memory = Some(64 << 20);
        let sandbox = match world.create(&spec).await {
            Err(SandboxError::Unsupported { what, .. }) if what.contains("rootless") => return skip!("{what}"),
            made => made.unwrap(),
        };
        let said = ok(&*sandbox, "(i=0; while [ $i -lt 60 ]; do sleep 100 >/dev/null 2>&1 & i=$((i+1)); done) 2>&1 || true").await;
        assert!(said.contains("fork"), "{said}");
        sandbox.close().await.unwrap();
        let sandbox = world.create(&spec).await.unwrap();
        let said = ok(&*sandbox, "dd if=/dev/zero of=/dev/null bs=200M count=1 2>&1; echo $?").await;
        assert!(said.trim().ends_with("137"), "{said}");
        sandbox.close().await.unwrap();
    }
}

each! {
    /// Nobody named a limit: the kernel would give each of these half of the machine's memory.
    async fn files_in_memory_have_a_share_of_the_machines(world: World) {
        let text = fs::read_to_string("/proc/meminfo").unwrap();
        let total = text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
        let sandbox = world.create(&spec()).await.unwrap();
        for (place, share) in [("/home/agent", 20), ("/tmp", 20), ("/var/tmp", 5)] {
            let said = ok(&*sandbox, &format!("df -P -k {place}")).await;
            let line: Vec<_> = said.lines().last().unwrap().split_whitespace().collect();
            assert_eq!(line.last(), Some(&place), "{said}");
            let size = line[1].parse::<u64>().unwrap();
            let want = total * share / 100;
            // In whole pages.
            assert!(size.abs_diff(want) <= 64, "{place}: {size}, not {want}");
            ok(&*sandbox, &format!("echo x >{place}/x")).await;
        }
        sandbox.close().await.unwrap();
    }
}

each! {
    async fn behind_the_wall_nothing_is_reached_that_no_rule_names(world: World) {
        let (mut spec, handle) = world.living();
        spec.network = world.wall(&spec, &[]);
        let sandbox = world.create(&spec).await.unwrap();
        // There may be no such list, but never another one.
        let names = ok(&*sandbox, "ls /sys/class/net 2>/dev/null || true; tail -n +3 /proc/net/dev | cut -d: -f1").await;
        assert!(names.split_whitespace().all(|name| name == "lo") && names.contains("lo"), "{names}");
        assert!(ok(&*sandbox, "cat /etc/resolv.conf").await.contains("192.0.2.53"));
        let refused = "nslookup no.example.invalid 2>&1; wget -T 5 -O - http://192.0.2.1/ 2>&1 || echo refused; \
                       ip link add dummy type dummy 2>&1 || echo no right";
        let said = ok(&*sandbox, refused).await;
        assert!(said.contains("NXDOMAIN") && said.contains("refused") && said.contains("no right"), "{said}");
        // The agent's own container alone is left: the one that made the wall has gone, or stays without a program.
        let sockets = sandbox.sockets().await;
        assert!(sockets.is_ok());
        sandbox.close().await.unwrap();
        assert_eq!(world.containers(&spec), 0);
        world.engine.remove(&handle).await.unwrap();
    }
}

each! {
    async fn what_was_cut_short_leaves_nothing(world: World) {
        let tree = world.directory("tree");
        fs::write(tree.join("precious"), "x").unwrap();
        for after in [0, 20, 60, 120, 200, 300, 450] {
            let mut spec = spec();
            spec.mounts = vec![mount(&tree, "/workspace", Access::ReadWrite)];
            let cancel = CancellationToken::new();
            let ends = cancel.clone();
            let timer = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                ends.cancel();
            });
            let made = world.engine.create(&spec, &cancel).await;
            timer.await.unwrap();
            if let Ok(sandbox) = made {
                sandbox.close().await.unwrap();
            }
            world.eventually("its containers go", || world.containers(&spec) == 0).await;
            assert_eq!(world.left(), <[String; 0]>::default(), "after {after} ms");
        }
        assert!(tree.join("precious").exists());
    }
}

each! {
    async fn what_is_not_ours_stays(world: World) {
        let (mut spec, handle) = world.living();
        let name = format!("cofferdam-test-{}", spec.id);
        spec.hostname.clone_from(&name);
        // The name is somebody else's, and their container claims to be this sandbox's, of another home.
        let label = format!("io.cofferdam.id={}", spec.id);
        let theirs = engine(world.kind, &["create", "--name", &name, "--label", &label, world.image(), "true"]);
        let sandbox = world.create(&spec).await.unwrap();
        ok(&*sandbox, "true").await;
        world.engine.remove(&handle).await.unwrap();
        let there = engine(world.kind, &["inspect", "--format", "{{.Name}}", theirs.trim()]);
        engine(world.kind, &["rm", "-f", theirs.trim()]);
        assert!(there.contains(&name), "{there}");
    }
}

each! {
    /// Whoever may use the engine can write any label; they cannot give a container an id.
    async fn one_that_has_all_labels_of_ours_and_is_not_ours_stays(world: World) {
        let repository = RepoPath::resolve(&world.directory("repository")).unwrap();
        let (mut spec, handle) = world.living();
        spec.repository = Some(repository.clone());
        spec.place = Some(handle.state.clone());
        let sandbox = world.create(&spec).await.unwrap();
        let label = format!("label=io.cofferdam.id={}", spec.id);
        let ids = || engine(world.kind, &["ps", "-a", "-q", "--no-trunc", "--filter", &label]);
        let ours = ids();
        let read = |id: &str| {
            let format = "{{range $name, $value := .Config.Labels}}{{$name}}={{$value}}\n{{end}}";
            engine(world.kind, &["inspect", "--format", format, id])
        };
        let labels = read(ours.trim());
        let wanted = format!("io.cofferdam.repository={}", repository.as_path().display());
        assert!(labels.contains(&wanted), "{labels}");
        let mut words = vec!["create"];
        let labels: Vec<&str> = labels.split("\\n").flat_map(str::lines).filter(|label| label.contains('=')).collect();
        assert_eq!(labels.iter().filter(|label| label.starts_with("io.cofferdam.")).count(), 4, "{labels:?}");
        for label in &labels {
            words.extend(["--label", label]);
        }
        words.extend([world.image(), "true"]);
        let theirs = engine(world.kind, &words);
        let theirs = theirs.trim();
        // By its labels it is the sandbox's: whoever looks for those alone would take it.
        assert_eq!(ids().lines().count(), 2, "{theirs}");
        let examined = world.engine.examine(&handle).await.unwrap();
        assert!(examined.iter().all(|one| one.what != "container"), "{examined:?}");
        sandbox.close().await.unwrap();
        world.engine.remove(&handle).await.unwrap();
        assert_eq!(ids().trim(), theirs);
        // State of an earlier version knows neither ids nor a repository: it is where a container meets its maker, and theirs meets nobody.
        let file = handle.state.join("engine.json");
        let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for name in ["made", "repository"] {
            assert!(record.as_object_mut().unwrap().remove(name).is_some(), "{name}: {record}");
        }
        fs::write(&file, record.to_string()).unwrap();
        world.engine.remove(&handle).await.unwrap();
        assert_eq!(ids().trim(), theirs);
        engine(world.kind, &["rm", theirs]);
    }
}

each! {
    async fn each_has_a_name_that_tells_whose_it_is(world: World) {
        let repository = RepoPath::resolve(&world.directory("my-repo")).unwrap();
        let wanted = format!("cofferdam-my-repo-{}", SandboxId::random().unwrap());
        let with_hash = format!("{wanted}-{}", repository.hash8());
        let mut made = Vec::new();
        for number in 0..3 {
            let mut spec = spec();
            spec.hostname.clone_from(&wanted);
            spec.repository = Some(repository.clone());
            let sandbox = world.create(&spec).await.unwrap();
            let label = format!("label=io.cofferdam.id={}", spec.id);
            let id = engine(world.kind, &["ps", "-q", "--filter", &label]);
            let format = "{{.Name}} {{.Config.Hostname}}";
            let said = engine(world.kind, &["inspect", "--format", format, id.trim()]);
            let with_id = format!("{with_hash}-{}", &spec.id.to_string()[..8]);
            let name = [&wanted, &with_hash, &with_id][number];
            let hostname: String = wanted.chars().take(63).collect();
            assert_eq!(said.trim().trim_start_matches('/'), format!("{name} {hostname}"));
            assert_eq!(ok(&*sandbox, "hostname").await.trim(), hostname);
            made.push(sandbox);
        }
        for sandbox in made {
            sandbox.close().await.unwrap();
        }
    }
}

each! {
    async fn an_image_that_is_not_there_is_named_with_what_gets_it(world: World) {
        let missing = world.with_image("localhost/no-such-image:1");
        match missing.create(&spec(), &CancellationToken::new()).await {
            Err(SandboxError::Unsupported { what, hint }) => {
                assert!(what.contains("localhost/no-such-image:1"), "{what}");
                assert!(hint.contains("pull localhost/no-such-image:1"), "{hint}");
            }
            other => panic!("{other:?}"),
        }
    }
}

each! {
    /// Where the machine's Docker has none but its own, what is not there is refused alone.
    async fn another_runtime_is_taken_or_refused_by_name(world: World) {
        let make = async |name: &str| {
            let (mut spec, handle) = world.living();
            spec.place = Some(handle.state.clone());
            let made = world.with_runtime(name).create(&spec, &CancellationToken::new()).await;
            (spec, handle, made)
        };
        let refused = async |name: &str| match make(name).await.2 {
            Err(SandboxError::Unsupported { what, hint }) => (what, hint),
            other => panic!("{other:?}"),
        };
        let (what, hint) = refused("no-such-one").await;
        if world.kind == Kind::Podman {
            assert!(what.contains("takes no runtime") && hint.contains("containers.conf"), "{what}");
            return;
        }
        assert!(what.contains("`no-such-one`") && hint.contains("`runc`"), "{what}: {hint}");
        let there = engine(world.kind, &["info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}"]);
        if !there.contains("other") {
            return skip!("this Docker has no runtime beside its own");
        }
        let (what, _) = refused("runsc").await;
        assert!(what.contains("`runsc` passes no descriptors"), "{what}");
        let (spec, handle, made) = make("other").await;
        let sandbox = made.unwrap();
        ok(&*sandbox, "true").await;
        let label = format!("label=io.cofferdam.id={}", spec.id);
        let ids = engine(world.kind, &["ps", "-q", "--filter", &label]);
        let runtime = engine(world.kind, &["inspect", "--format", "{{.HostConfig.Runtime}}", ids.trim()]);
        assert_eq!(runtime.trim(), "other");
        // The same one whenever it is started again.
        let recorded = fs::read_to_string(handle.state.join("engine.json")).unwrap();
        assert!(recorded.contains("\"runtime\": \"other\""), "{recorded}");
        world.engine.remove(&handle).await.unwrap();
    }
}

each! {
    async fn nothing_that_an_image_names_is_started(world: World) {
        let volumes = || engine(world.kind, &["volume", "ls", "-q"]);
        for user in ["0", "nobody", "4321:4321"] {
            let image = world.hostile_image(user);
            let check = engine(world.kind, &["image", "inspect", &image]);
            assert!(check.contains("ran-by-the-engine"), "the control: {check}");
            let spec = spec();
            let sandbox = world.with_image(&image).create(&spec, &CancellationToken::new()).await.unwrap();
            let label = format!("label=io.cofferdam.id={}", spec.id);
            let id = engine(world.kind, &["ps", "-q", "--filter", &label]);
            let inspect = |format: &str| engine(world.kind, &["inspect", "--format", format, id.trim()]).trim().to_owned();
            let seen = ok(&*sandbox, "id -u; ls / | grep -c ran; ps -o args | grep -c '[n]ever'; echo $OF_THE_IMAGE").await;
            let seen: Vec<&str> = seen.lines().collect();
            assert!(seen[0] != "0" && seen[0] != "4321", "{user}: {seen:?}");
            assert_eq!(seen[1..], ["0", "0", "yes"], "{user}");
            let started = inspect("{{.Path}} {{json .Config.Healthcheck}}");
            assert!(started.starts_with("/.cofferdam-") && started.contains("/guest ") && !started.contains("touch"), "{started}");
            // What it declares is there, is this sandbox's alone, and goes with it.
            let volume = inspect("{{range .Mounts}}{{if eq .Type \"volume\"}}{{.Name}}{{end}}{{end}}");
            assert!(volumes().lines().any(|one| one == volume), "{user}: {volume}");
            sandbox.close().await.unwrap();
            assert!(!volumes().lines().any(|one| one == volume), "{user}: {volume}");
            engine(world.kind, &["rmi", "-f", &image]);
        }
    }
}

fn is_the_callers(world: &World) -> bool {
    match world.kind {
        Kind::Docker => {
            engine(world.kind, &["info", "--format", "{{.SecurityOptions}}"]).contains("rootless")
        }
        Kind::Podman => engine(
            world.kind,
            &["info", "--format", "{{.Host.Security.Rootless}}"],
        )
        .contains("true"),
    }
}

each! {
    async fn directories_lie_over_one_another(world: World) {
        let (lower, changes) = (world.directory("lower"), world.directory("changes"));
        fs::create_dir_all(lower.join("tree/deep")).unwrap();
        fs::write(lower.join("tree/deep/file"), "below\n").unwrap();
        fs::write(lower.join("gone"), "x").unwrap();
        for name in ["upper", "work"] {
            fs::create_dir(changes.join(name)).unwrap();
        }
        let (mut spec, handle) = world.living();
        spec.workdir = "/workspace".into();
        spec.mounts.push(Mount {
            source: MountSource::Layers { lower: vec![lower.clone()], upper: Some(changes.clone()) },
            target: "/workspace".into(),
            access: Access::ReadWrite,
        });
        let own = rustix::process::geteuid().as_raw();
        if own != 0 && !is_the_callers(&world) {
            let refused = world.create(&spec).await.unwrap_err().to_string();
            assert!(refused.contains("root's alone"), "{refused}");
            return;
        }
        // By the calls themselves: mv(1) below copies what cannot be renamed.
        let tried = world.engine.try_layers(&world.directory("tried"), &CancellationToken::new()).await;
        assert_eq!(tried.map_err(|error| error.to_string()), Ok(()));
        for again in [false, true] {
            let sandbox = world.create(&spec).await.unwrap();
            if again {
                // What was changed stays over what lies below.
                assert_eq!(ok(&*sandbox, "cat other/deep/file new; ls gone 2>/dev/null || true").await, "below\nmore\nnew\n");
            } else {
                assert_eq!(ok(&*sandbox, "cat tree/deep/file").await, "below\n");
                let mounted = ok(&*sandbox, "grep ' /workspace ' /proc/self/mountinfo").await;
                let options = mounted.split(' ').nth(5).unwrap_or_default();
                assert!(options.contains("nosuid") && options.contains("nodev"), "{mounted}");
                ok(&*sandbox, "mv tree other; test ! -e tree; echo more >>other/deep/file; rm gone; echo new >new; chmod +x new").await;
            }
            world.engine.remove(&handle).await.unwrap();
            assert_eq!(world.left(), <[String; 0]>::default());
        }
        assert_eq!(fs::read_to_string(lower.join("tree/deep/file")).unwrap(), "below\n");
        let new = changes.join("upper/new");
        assert_eq!((fs::read_to_string(&new).unwrap().as_str(), new.metadata().unwrap().uid()), ("new\n", own));
    }
}

each! {
    /// An engine's own pause stops the guest too: who asks is told so, and the end does not wait for it.
    async fn one_that_the_engine_has_paused_is_named_and_ends(world: World) {
        let (mut spec, handle) = world.living();
        spec.place = Some(handle.state.clone());
        drop(world.create(&spec).await.unwrap());
        let label = format!("label=io.cofferdam.id={}", spec.id);
        let id = engine(world.kind, &["ps", "-q", "--filter", &label]);
        if let Err(why) = try_engine(world.kind, &["pause", id.trim()]) {
            world.engine().remove(&handle).await.unwrap();
            return skip!("an engine that cannot pause: {why}");
        }
        match world.engine().open(&handle).await {
            Err(SandboxError::Unsupported { what, hint }) => {
                assert!(what.contains("somebody has paused its container"), "{what}");
                let command = format!("`{} unpause {}`", world.kind.name(), id.trim());
                assert!(hint.contains(&command), "{hint}");
            }
            other => panic!("{other:?}"),
        }
        // The control: let go on, it answers.
        engine(world.kind, &["unpause", id.trim()]);
        world.engine().open(&handle).await.unwrap();
        engine(world.kind, &["pause", id.trim()]);
        world.engine().remove(&handle).await.unwrap();
        assert_eq!(world.containers(&spec), 0);
    }
}
