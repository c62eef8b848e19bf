//! How a running sandbox is kept apart from the machine.

use cofferdam::sandbox::Held;
use cofferdam::session::Session;

use super::finding::{Finding, Standing};
use crate::commands::living;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// What is weaker than it was made is malformed.
pub(super) async fn examine(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Vec<Finding>, CliError> {
    let caller = living::caller(environment, interrupt);
    let named = living::named(name, &caller, environment).await?;
    let provider = named.provider(&caller)?;
    let session = Session::open(&caller, named, &provider).await?;
    let examined = session.examine(&provider).await?;
    let finding = |one: &cofferdam::sandbox::Examined| match &one.found {
        Held::Holds(seen) => Finding::new(one.what, Standing::Ok, seen, ""),
        Held::Broken(seen) => {
            let hint = format!(
                "end it with `cofferdam stop {name}`; `cofferdam start {name}` makes it anew from its files"
            );
            Finding::new(one.what, Standing::Malformed, seen, hint)
        }
        Held::Unknown(why) => Finding::new(one.what, Standing::Degraded, why, ""),
    };
    Ok(examined.iter().map(finding).collect())
}
