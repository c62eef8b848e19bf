//! How a test asks the lab what it saw and tells it what to do: one JSON value a line over the unix socket
//! `control` in the lab's directory.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::frame::Packet;
use super::recorder;
use super::world::{Query, Reply, Visit, World, locked};

#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    Name { name: String, replies: Vec<Reply> },
    Mark,
    Since(Mark),
    Search(String),
}

/// A moment in the lab's books.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    frames: usize,
    queries: usize,
    visits: usize,
}

/// What the lab saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub packets: Vec<Packet>,
    pub queries: Vec<Query>,
    pub visits: Vec<Visit>,
}

impl Seen {
    /// Whether nothing at all was seen.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.queries.is_empty() && self.visits.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Mark(Mark),
    Seen(Seen),
    Failed(String),
}

/// A connection to the lab.
#[derive(Debug)]
pub struct Control {
    stream: Mutex<BufReader<UnixStream>>,
}

impl Control {
    pub fn connect(directory: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(directory.join("control"))?;
        Ok(Self {
            stream: Mutex::new(BufReader::new(stream)),
        })
    }

    /// From now on the name server answers queries for `name` with these, the last one again and again.
    /// `*.name` counts for what is below, `*` for everything else.
    pub fn name(&self, name: &str, replies: Vec<Reply>) -> io::Result<()> {
        let name = name.to_owned();
        match self.ask(&Ask::Name { name, replies })? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Now: every frame of before is in the books.
    pub fn mark(&self) -> io::Result<Mark> {
        match self.ask(&Ask::Mark)? {
            Answer::Mark(mark) => Ok(mark),
            other => Err(unexpected(&other)),
        }
    }

    /// All that was seen since then.
    pub fn since(&self, mark: Mark) -> io::Result<Seen> {
        self.seen(&Ask::Since(mark))
    }

    /// All that was ever seen with `needle` in it, upper or lower case.
    pub fn search(&self, needle: &str) -> io::Result<Seen> {
        self.seen(&Ask::Search(needle.to_owned()))
    }

    fn seen(&self, ask: &Ask) -> io::Result<Seen> {
        match self.ask(ask)? {
            Answer::Seen(seen) => Ok(seen),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&self, ask: &Ask) -> io::Result<Answer> {
        let mut stream = locked(&self.stream);
        let mut line = serde_json::to_vec(ask)?;
        line.push(b'\n');
        stream.get_mut().write_all(&line)?;
        let mut answer = String::new();
        stream.read_line(&mut answer)?;
        match serde_json::from_str(&answer)? {
            Answer::Failed(why) => Err(io::Error::other(why)),
            answer => Ok(answer),
        }
    }
}

fn unexpected(answer: &Answer) -> io::Error {
    io::Error::other(format!("the lab answered {answer:?}"))
}

pub(crate) fn start(path: &Path, world: Arc<World>) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let world = Arc::clone(&world);
            std::thread::spawn(move || serve(&world, stream));
        }
    });
    Ok(())
}

fn serve(world: &World, stream: UnixStream) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(io::Error::other)
            .and_then(|ask| answer(world, ask))
            .unwrap_or_else(|error| Answer::Failed(error.to_string()));
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        writer.write_all(&line)?;
    }
    Ok(())
}

fn answer(world: &World, ask: Ask) -> io::Result<Answer> {
    Ok(match ask {
        Ask::Name { name, replies } => {
            locked(&world.scripts).insert(name.to_ascii_lowercase(), replies);
            Answer::Done
        }
        Ask::Mark => {
            recorder::catch_up(world)?;
            Answer::Mark(Mark {
                frames: locked(&world.frames).all.len(),
                queries: locked(&world.queries).len(),
                visits: locked(&world.visits).len(),
            })
        }
        Ask::Since(mark) => {
            recorder::catch_up(world)?;
            Answer::Seen(Seen {
                packets: locked(&world.frames).all[mark.frames..]
                    .iter()
                    .map(|(packet, _)| packet.clone())
                    .collect(),
                queries: locked(&world.queries)[mark.queries..].to_vec(),
                visits: locked(&world.visits)[mark.visits..].to_vec(),
            })
        }
        Ask::Search(needle) => {
            recorder::catch_up(world)?;
            let holds = |text: &str| recorder::holds(text.as_bytes(), &needle);
            Answer::Seen(Seen {
                packets: locked(&world.frames)
                    .all
                    .iter()
                    .filter(|(_, frame)| recorder::holds(frame, &needle))
                    .map(|(packet, _)| packet.clone())
                    .collect(),
                queries: locked(&world.queries)
                    .iter()
                    .filter(|query| holds(&query.name))
                    .cloned()
                    .collect(),
                visits: locked(&world.visits)
                    .iter()
                    .filter(|visit| holds(&visit.what))
                    .cloned()
                    .collect(),
            })
        }
    })
}
