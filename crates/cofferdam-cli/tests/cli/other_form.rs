//! What a sandbox is made anew from, as another version of Cofferdam wrote it.

use crate::lives::Lives;

/// A later one need not have what this one asks for: it is named by its number, and left as it is.
#[test]
fn a_form_of_another_version_is_named_before_anything_of_it_is_read() {
    let lives = Lives::with("box", &["--network", "none"]);
    let states = lives.home().join(".cofferdam/state");
    let state = states.read_dir().unwrap().next().unwrap().unwrap().path();
    let form = state.join("sandbox.json");
    let old = std::fs::read_to_string(&form).unwrap();
    let newer = r#"{"version": 7, "what": "only that one knows"}"#;
    cofferdam::fsx::write_private(&form, newer.as_bytes()).unwrap();
    let refused = |command: &str| {
        let done = lives.cofferdam(&[command, "box"]).expect_code(1);
        let said = "it has format 7 of another version of cofferdam";
        assert!(done.stderr.contains(said), "{done}");
        assert!(done.stderr.contains("`cofferdam collect`"), "{done}");
    };
    // What could not be made anew is not ended for it.
    refused("restart");
    assert_eq!(lives.state("box"), "active");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    refused("start");
    assert_eq!(std::fs::read_to_string(&form).unwrap(), newer);
    cofferdam::fsx::write_private(&form, old.as_bytes()).unwrap();
    lives.cofferdam(&["start", "box"]).expect_code(0);
}
