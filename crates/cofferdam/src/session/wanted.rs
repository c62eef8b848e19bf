//! Data that an agent is to give back: looked for in its own words alone, between two tags.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Bytes of an agent's words that are looked through, the last ones.
const SAID: usize = 4 << 20;
/// Bytes of what is wrong that the agent is told.
const TOLD: usize = 4000;

/// Why it is no such data, in words for the agent.
type Check = Arc<dyn Fn(&str) -> Result<Value, String> + Send + Sync>;

/// What an agent is to give back at the end of a run.
///
/// ```no_run
/// # async fn example(mut options: cofferdam::RunOptions) -> Result<(), Box<dyn std::error::Error>> {
/// use cofferdam::session::Output;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Plan {
///     issues: Vec<String>,
/// }
///
/// options.task.output = Some(Output::of::<Plan>("plan")?);
/// let report = cofferdam::run(options).await?;
/// if let Some(plan) = report.output_as::<Plan>() {
///     println!("{}", plan?.issues.join(", "));
/// }
/// # Ok(())
/// # }
/// ```
///
/// It is the last `<tag>…</tag>` in its own words. Fences of code around it are taken off.
#[derive(Clone)]
pub struct Output {
    tag: String,
    check: Check,
    /// So often it is asked again in the same conversation, where its answer is not as it should be. Default 2. One that cannot go on with
    /// a conversation never is, and [`OutputError::unasked`] says so.
    pub retries: u32,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("tag", &self.tag)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

/// It is no name of a tag: a letter, and then letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a tag: a letter, and then letters, digits, - and _")]
pub struct NoTag(String);

impl Output {
    /// As `check` reads it: what is wrong is told to the agent.
    pub fn checked(
        tag: &str,
        check: impl Fn(&str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Result<Self, NoTag> {
        let is_one = tag.starts_with(|first: char| first.is_ascii_alphabetic())
            && (tag.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !is_one {
            return Err(NoTag(tag.escape_debug().to_string()));
        }
        Ok(Self {
            tag: tag.to_owned(),
            check: Arc::new(check),
            retries: 2,
        })
    }

    /// Any text.
    pub fn text(tag: &str) -> Result<Self, NoTag> {
        Self::checked(tag, |text| Ok(Value::String(text.to_owned())))
    }

    /// Any JSON.
    pub fn json(tag: &str) -> Result<Self, NoTag> {
        Self::checked(tag, |text| {
            serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
        })
    }

    /// JSON of this type; where it is not, the agent is told its schema. [`super::RunReport::output_as`] gives it back.
    pub fn of<T: DeserializeOwned + JsonSchema>(tag: &str) -> Result<Self, NoTag> {
        let schema = serde_json::to_string(&schemars::schema_for!(T)).unwrap_or_default();
        Self::checked(tag, move |text| {
            let wrong = |error: serde_json::Error| format!("{error}; its JSON Schema is {schema}");
            let value: Value = serde_json::from_str(text).map_err(wrong)?;
            serde_json::from_value::<T>(value.clone()).map_err(wrong)?;
            Ok(value)
        })
    }

    /// So often it is asked again.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// The name between `<` and `>`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Finds it in what an agent said.
    pub(super) fn find(&self, said: &str) -> Result<Value, OutputError> {
        let (open, close) = (format!("<{}>", self.tag), format!("</{}>", self.tag));
        let inner = said.rfind(&close).and_then(|end| {
            let begin = said[..end].rfind(&open)? + open.len();
            said.get(begin..end)
        });
        let Some(inner) = inner else {
            return Err(OutputError {
                tag: self.tag.clone(),
                why: format!("there is no {open}…{close} in what the agent said"),
                raw: None,
                unasked: false,
            });
        };
        (self.check)(unfenced(inner)).map_err(|why| OutputError {
            tag: self.tag.clone(),
            why,
            raw: Some(inner.to_owned()),
            unasked: false,
        })
    }

    /// What the agent is told of an answer that is not as it should be.
    pub(super) fn again(&self, error: &OutputError) -> String {
        let tag = &self.tag;
        let why: String = error.why.chars().take(TOLD).collect();
        format!(
            "What you were to give back between <{tag}> and </{tag}> is not as it should be: {why}\n\
             Say it once more, whole, between <{tag}> and </{tag}>. Change nothing else."
        )
    }
}

/// What an agent gave back is not what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the agent gave no usable <{tag}>: {why}{end}",
    end = if *.unasked { "; it was not asked again, because it has no conversation that can go on" } else { "" }
)]
pub struct OutputError {
    /// The name between `<` and `>`.
    pub tag: String,
    /// Printable only after [`crate::text::printable`]: it may quote the agent.
    pub why: String,
    /// What was between the last two tags.
    pub raw: Option<String>,
    /// It was to be asked again and could not be: its program has no conversation that can go on.
    pub unasked: bool,
}

/// Without a fence of three backticks around it.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| {
        let (_, rest) = rest.split_once('\n')?;
        rest.strip_suffix("```")
    });
    inner.map_or(text, str::trim)
}

/// What an agent said in a run: the last of it, bounded.
#[derive(Debug, Default)]
pub(super) struct Said(String);

impl Said {
    pub(super) fn add(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
        if self.0.len() > 2 * SAID {
            let from = self.0.ceil_char_boundary(self.0.len() - SAID);
            self.0.drain(..from);
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Issues {
        #[expect(dead_code, reason = "only its form counts")]
        issues: Vec<String>,
    }

    #[test]
    fn the_last_whole_one_counts_and_fences_do_not() {
        let output = Output::of::<Issues>("plan").unwrap();
        let good = "<plan>{\"issues\": [\"b\"]}</plan>";
        let found = |said: &str| output.find(said).map(|value| value["issues"][0].clone());
        assert_eq!(found(good).unwrap(), "b");
        let first = "<plan>{\"issues\": [\"a\"]}</plan> and then ";
        assert_eq!(found(&format!("{first}{good}")).unwrap(), "b");
        // One that has only begun is none.
        assert_eq!(found(&format!("{first}<plan>{{")).unwrap(), "a");
        for fence in ["```json\n", "```\n"] {
            let fenced = format!("<plan>\n{fence}{{\"issues\": [\"c\"]}}\n```\n</plan>");
            assert_eq!(found(&fenced).unwrap(), "c");
        }
        let wrong = output.find("<plan>{\"issue\": 1}</plan>").unwrap_err();
        assert_eq!(wrong.raw.as_deref(), Some("{\"issue\": 1}"));
        assert!(
            wrong.why.contains("missing field `issues`") && wrong.why.contains("\"properties\"")
        );
        let again = output.again(&wrong);
        assert!(
            again.contains("missing field `issues`") && again.contains("<plan>"),
            "{again}"
        );
        let none = output.find("nothing").unwrap_err();
        assert_eq!(none.raw, None);
    }

    #[test]
    fn other_forms() {
        let text = Output::text("answer").unwrap();
        assert_eq!(text.find("<answer> yes </answer>").unwrap(), "yes");
        let json = Output::json("a-1_b").unwrap();
        assert_eq!(
            json.find("<a-1_b>[1]</a-1_b>").unwrap(),
            serde_json::json!([1])
        );
        assert!(json.find("<a-1_b>x</a-1_b>").is_err());
        for bad in ["", "1", "a b", "a>", "é"] {
            assert!(Output::text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_said_is_bounded_and_its_end_is_kept() {
        let mut said = Said::default();
        for _ in 0..5 {
            said.add(&"é".repeat(SAID / 2));
        }
        said.add("<answer>x</answer>");
        assert!(said.text().len() <= 2 * SAID + 100);
        assert_eq!(
            Output::text("answer").unwrap().find(said.text()).unwrap(),
            "x"
        );
    }
}
