//! What the network refused, for whoever waits for a program or asks what one printed.

use cofferdam::text::printable_line;
use cofferdam::wall::Refused;

use crate::ui::opening;
use crate::ui::table::fit;

/// Characters of a destination, and of why it was refused.
const WHERE: usize = 200;

/// As a note.
pub(super) fn note(refused: &Refused) -> String {
    let Refused { what, reason, .. } = refused;
    let what = fit(&printable_line(what), WHERE);
    let reason = fit(&printable_line(reason), WHERE);
    let offer = refused.opens.as_deref().and_then(opening::offer);
    let who = offer.map_or_else(String::new, |command| {
        format!("; the person you work for opens it with `{command}`")
    });
    format!("the network refused {what}: {reason}{who}")
}
