//! Whether a call of git is refused. Pure: whoever asks says what an alias stands for.

use super::environment::Environment;
use super::globals;
use super::options::Meaning::{
    Forces, ForcesIfIncludes, ForcesWithLease, Mirrors, Runs, SkipsHooks,
};
use super::options::{Given, Order, read};
use super::refusal::{Reason, Refusal};
use super::settings::{self, Setting};
use super::split::split;
use super::{Word, builtins, commands, config, shell};

/// One call leads to at most so many: aliases of aliases, and commands in the texts of some.
const MOST_CALLS: u32 = 64;
/// And so deep: git itself ends where an alias comes back to itself.
const DEEPEST: u32 = 10;

/// Variables by which common programs that run hooks are told to run none, and the values that do so. Not `SKIP` of pre-commit: its
/// name is anybody's, and it leaves out single checks that somebody names.
const OFF: &[(&str, &[&[u8]])] = &[
    ("HUSKY", &[b"0"]),
    ("HUSKY_SKIP_HOOKS", &[b"1", b"true"]),
    ("LEFTHOOK", &[b"0", b"false"]),
];

/// How the program pre-commit commits in repositories of its own below its cache, in which it then runs local hooks: these words,
/// under its name. Refused, it could run none of them.
const OF_PRE_COMMIT: &[&[u8]] = &[b"--no-edit", b"--no-gpg-sign", b"-n", b"-minit"];

/// What the alias of this name stands for, if there is one; asked with git's own options, as they were given.
pub(super) type Aliases<'a> = dyn FnMut(&[Word], &[u8]) -> Option<Word> + 'a;

/// `words`: those after git's own name.
pub(super) fn judge(
    words: &[Word],
    environment: &Environment,
    aliases: &mut Aliases<'_>,
) -> Option<Refusal> {
    let mut judge = Judge {
        aliases,
        left: MOST_CALLS,
    };
    let call = Call {
        environment: environment.clone(),
        ..Call::default()
    };
    judge.call(words, &call)
}

/// What a call has of whoever makes it.
#[derive(Debug, Clone, Default)]
struct Call {
    environment: Environment,
    settings: Vec<Setting>,
    steering: Vec<Word>,
    depth: u32,
}

struct Judge<'a, 'b> {
    aliases: &'a mut Aliases<'b>,
    left: u32,
}

impl Judge<'_, '_> {
    fn call(&mut self, words: &[Word], caller: &Call) -> Option<Refusal> {
        self.left = self.left.checked_sub(1)?;
        let (globals, words) = globals::read(words, &caller.environment);
        let (name, arguments) = words.split_first()?;
        let mut call = caller.clone();
        call.settings.extend(globals.settings);
        call.steering.extend(globals.steering);
        call.depth += 1;
        if builtins::has(name) {
            return self.builtin(name, arguments, &call);
        }
        if call.depth > DEEPEST {
            return None;
        }
        let text = (self.aliases)(&call.steering, name)?;
        let refused = if let Some(script) = text.strip_prefix(b"!") {
            self.script(script, arguments, &call)
        } else {
            let mut words = split(&text)?;
            words.extend(arguments.iter().cloned());
            self.call(&words, &call)
        };
        refused.map(|refusal| refusal.by_alias(name))
    }

    /// What a shell runs for git, where that is git again.
    fn script(&mut self, text: &[u8], arguments: &[Word], call: &Call) -> Option<Refusal> {
        let all = shell::commands(text);
        let count = all.len();
        all.into_iter().enumerate().find_map(|(index, command)| {
            let assigned = command.iter().map_while(|word| assignment(word));
            let (program, words) = command[assigned.clone().count()..].split_first()?;
            if program != b"git" || self.left == 0 {
                return None;
            }
            let mut call = call.clone();
            for (name, value) in assigned {
                call.environment.set(name, value);
            }
            let words = shell::given(words, arguments, index + 1 == count);
            self.call(&words, &call)
        })
    }

    fn builtin(&mut self, name: &[u8], arguments: &[Word], call: &Call) -> Option<Refusal> {
        let first = arguments.first().map_or(&[][..], Vec::as_slice);
        // A page of the manual, or of usage.
        if first == b"--help" || (first == b"-h" && arguments.len() == 1) {
            return None;
        }
        if name == b"config" {
            return config::moves_hooks(arguments)
                .then(|| Refusal::new("config", "core.hooksPath", Reason::MovesHooks));
        }
        let command = commands::find(name)?;
        let given = read(arguments, command.options, Order::Anywhere)?;
        if given.says(SkipsHooks) && !is_of_pre_commit(arguments, &call.environment) {
            let refusal = Refusal::new(command.name, "--no-verify", Reason::SkipsHooks);
            return Some(refusal);
        }
        if command.name == "push"
            && let Some(what) = overwrites(&given, call)
        {
            return Some(Refusal::new("push", what, Reason::Overwrites));
        }
        if let Some(what) = turned_off(call) {
            return Some(Refusal::new(command.name, what, Reason::TurnsHooksOff));
        }
        let run = given.said.iter().filter(|said| said.meaning == Runs);
        run.filter_map(|said| said.value)
            .find_map(|text| self.script(text, &[], call))
    }
}

fn is_of_pre_commit(arguments: &[Word], environment: &Environment) -> bool {
    environment.get("GIT_AUTHOR_NAME") == Some(b"pre-commit") && arguments == OF_PRE_COMMIT
}

/// `NAME=value` before a command.
fn assignment(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = word.iter().position(|&byte| byte == b'=')?;
    let (name, value) = word.split_at(at);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (!name.is_empty() && name.iter().all(is_name)).then_some((name, &value[1..]))
}

/// What of a push makes it overwrite.
fn overwrites(given: &Given<'_>, call: &Call) -> Option<String> {
    let options = [
        (Forces, "--force"),
        (ForcesWithLease, "--force-with-lease"),
        (ForcesIfIncludes, "--force-if-includes"),
        (Mirrors, "--mirror"),
    ];
    if let Some((_, name)) = options.iter().find(|(meaning, _)| given.says(*meaning)) {
        return Some((*name).to_owned());
    }
    // The first operand is where to. After `tag` stands a name, in which a plus sign is one.
    let mut refspecs = given.operands.iter().skip(1);
    while let Some(refspec) = refspecs.next() {
        if *refspec == b"tag" {
            refspecs.next();
        } else if refspec.starts_with(b"+") {
            return Some("+<refspec>".to_owned());
        }
    }
    let own = settings::from_environment(&call.environment);
    let forcing = own.iter().chain(&call.settings).find(|one| one.forces());
    forcing.map(|setting| format!("{} remote.<name>.*", setting.given))
}

/// What turns all hooks off for this call.
fn turned_off(call: &Call) -> Option<String> {
    let own = settings::from_environment(&call.environment);
    let mut all = own.iter().chain(&call.settings);
    if let Some(setting) = all.find(|one| one.moves_hooks()) {
        return Some(format!("{} core.hooksPath", setting.given));
    }
    let is_off = |(name, values): &&(&str, &[&[u8]])| {
        let value = call.environment.get(name);
        value.is_some_and(|value| values.contains(&value))
    };
    OFF.iter()
        .find(is_off)
        .map(|(name, values)| format!("{name}={}", String::from_utf8_lossy(values[0])))
}

#[cfg(test)]
mod tests;
