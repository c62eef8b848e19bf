//! `model-server SCRIPT`: a scripted model on a loopback port, for `scripts/record-agents` and for trying
//! things by hand. Prints its URL, and at the end of its standard input the requests it got.

use std::error::Error;
use std::io::{Read, Write};

use cofferdam_lab::model::{Model, Request, Script};

fn main() -> Result<(), Box<dyn Error>> {
    let script = std::env::args()
        .nth(1)
        .ok_or("usage: model-server SCRIPT, a list of turns in JSON")?;
    let script: Script = serde_json::from_str(&script)?;
    let model = Model::start(script)?;
    let mut out = std::io::stdout();
    writeln!(out, "http://127.0.0.1:{}", model.port())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let seen = model.seen();
    for request in &seen.requests {
        let (tools, key) = (request.tools().join(" "), request.key().unwrap_or("none"));
        let Request { method, path, .. } = request;
        writeln!(out, "{method} {path} key: {key} tools: {tools}")?;
    }
    for complaint in &seen.complaints {
        writeln!(out, "complaint: {complaint}")?;
    }
    Ok(())
}
