//! Tools that take turns.

use serde_json::json;

use crate::lives::Lives;
use crate::mcp_client::Client;

/// Whoever changes a file by what it holds waits for another one who is about to.
#[test]
fn an_edit_waits_for_who_edits() {
    let lives = Lives::new();
    let mut client = Client::start(&lives);
    client.tool("sandbox-create", &json!({"name": "one"}));
    let state = lives.home().join(".cofferdam/state");
    let id = lives.listed("one").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let held = std::fs::File::create(state.join(id).join("files")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let edit = json!({"sandbox": "one", "path": "README.md", "old": "hello", "new": "edited"});
    client.begin("edit", "sandbox-edit", &edit);
    // As long as that goes on it stays as it is.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(lives.exec("one", "cat README.md").stdout, "hello\n");
    drop(held);
    let answer = client.hear();
    assert_eq!(answer["id"], "edit", "{answer}");
    assert_eq!(lives.exec("one", "cat README.md").stdout, "edited\n");
    drop(client);
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
