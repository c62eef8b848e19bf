//! The built-in list without some of its rules, as a list of the user's own: rules only allow, so nothing can be
//! taken out of the built-in one itself.

use cofferdam::config;
use cofferdam::wall::allowed::Which;
use cofferdam::wall::rules::Loaded;
use cofferdam::wall::{Origin, Rule};

use crate::environment::Environment;
use crate::ui::shell::shell_word;

/// What a `config.yaml` says that is the built-in list but for some rules.
#[derive(Debug)]
pub(super) struct Without {
    text: String,
    names: Vec<String>,
}

impl Without {
    /// `None`: no rule of the built-in list is meant, or it does not count any more.
    pub(super) fn new(which: &[Which], loaded: &Loaded) -> Option<Self> {
        let all = loaded.rules.iter().cloned();
        let all = all.filter(|rule| rule.origin() == Origin::Defaults);
        let (gone, stay): (Vec<Rule>, Vec<Rule>) =
            all.partition(|rule| which.iter().any(|one| one.is(rule)));
        let names: Vec<String> = gone.iter().map(|rule| rule.target().to_string()).collect();
        let text = config::text_of(&stay)?;
        (!names.is_empty()).then_some(Self { text, names })
    }

    /// Commands of a shell that put it in force, to be pasted as they are.
    pub(super) fn commands(&self, environment: &Environment) -> String {
        let path = environment.home.config();
        let file = shell_word(&path);
        // It has no rules, or the built-in list would not count.
        let aside = if path.exists() {
            let mut old = path.into_os_string();
            old.push(".old");
            format!("mv {file} {} && ", shell_word(old))
        } else {
            String::new()
        };
        format!(
            "{aside}(umask 077; cat > {file}) <<'END' && {} net reload\n\
             # The built-in list of cofferdam {} without {}\n{}END\n",
            environment.invocation(),
            env!("CARGO_PKG_VERSION"),
            self.names.join(" "),
            self.text
        )
    }
}
