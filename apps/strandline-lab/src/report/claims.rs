//! Verdicts on the claims: whether the measurements show the same as the paper.

use crate::figure::show;
use crate::plan::expression::Expression;
use crate::plan::{Better, Claim, Plan, PublishedValue};
use crate::results::statistics::Evaluation;

/// The verdict on a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The claim holds, with this value.
    Holds(f64),
    /// The claim doesn't hold, but the value is better than claimed.
    Better(f64),
    /// The claim doesn't hold, with this value.
    Fails(f64),
    /// The measurements that the claim needs are missing; describes them.
    Open(String),
}

/// A verdict in words.
pub struct Outcome {
    /// `holds`, `fails` or `open`.
    pub class: &'static str,
    /// The verdict, such as "reproduced".
    pub word: &'static str,
    /// The value, or what is missing.
    pub value: String,
}

/// Describes the verdict on a claim: `own` if it is one of this project.
#[must_use]
pub fn outcome(verdict: &Verdict, own: bool) -> Outcome {
    let (class, word, value) = match verdict {
        Verdict::Holds(value) | Verdict::Better(value) if own => ("holds", "holds", show(*value)),
        Verdict::Fails(value) if own => ("fails", "does not hold", show(*value)),
        Verdict::Holds(value) => ("holds", "reproduced", show(*value)),
        Verdict::Better(value) => ("holds", "better here", show(*value)),
        Verdict::Fails(value) => ("fails", "not reproduced", show(*value)),
        Verdict::Open(missing) => ("open", "not evaluated", missing.clone()),
    };
    Outcome { class, word, value }
}

/// Returns a claim with its verdict and value as a line of text.
#[must_use]
pub fn line(claim: &Claim, verdict: &Verdict, own: bool) -> String {
    let Outcome { word, value, .. } = outcome(verdict, own);
    format!("  {word:<14} {value:>7} ({}): {}", bounds(claim), claim.says)
}

/// Judges a claim.
#[must_use]
pub fn judge(claim: &Claim, plan: &Plan, evaluation: &Evaluation<'_>) -> Verdict {
    let value = Expression::parse(&claim.value)
        .and_then(|expression| expression.value(&|name| resolve(name, plan, evaluation)));
    match value {
        Ok(value) => {
            let (low, high) =
                (claim.min.is_some_and(|min| value < min), claim.max.is_some_and(|max| value > max));
            match claim.better {
                _ if !low && !high => Verdict::Holds(value),
                Some(Better::Less) if low => Verdict::Better(value),
                Some(Better::More) if high => Verdict::Better(value),
                _ => Verdict::Fails(value),
            }
        }
        Err(missing) => Verdict::Open(missing),
    }
}

/// Describes the expected range of a claim's value.
#[must_use]
pub fn bounds(claim: &Claim) -> String {
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    match (claim.min, claim.max) {
        (Some(min), Some(max)) => format!("{} to {}{unit}", show(min), show(max)),
        (Some(min), None) => format!("at least {}{unit}", show(min)),
        (None, Some(max)) => format!("at most {}{unit}", show(max)),
        (None, None) => String::new(),
    }
}

/// Returns the number that `series.measure@value` refers to.
fn resolve(name: &str, plan: &Plan, evaluation: &Evaluation<'_>) -> Result<f64, String> {
    let (what, at) = name.split_once('@').map_or((name, None), |(what, at)| (what, Some(at)));
    let (series, measure) = what.split_once('.').ok_or_else(|| format!("{name} is not a valid name"))?;
    if let Some(published) = plan.published.iter().find(|published| published.name == series) {
        let value = published.values.get(measure).and_then(|value| number(value, at));
        return value.ok_or_else(|| format!("the paper does not state {name}"));
    }
    let summary = evaluation.summary(series, at, measure);
    summary.map(|summary| summary.median).ok_or_else(|| format!("{name} was not measured"))
}

/// Returns the published number at a value of the sweep.
#[must_use]
pub fn number(value: &PublishedValue, at: Option<&str>) -> Option<f64> {
    match value {
        PublishedValue::One(number) => Some(*number),
        PublishedValue::Each(numbers) => numbers.get(at?).copied(),
    }
}

/// Replaces `{series.measure@value}` in a plan's text by medians.
#[must_use]
pub fn with_numbers(text: &str, plan: &Plan, evaluation: &Evaluation<'_>) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        whole += before;
        whole += &resolve(name, plan, evaluation).map_or_else(|_| "(not measured)".to_owned(), show);
        rest = after;
    }
    whole + rest
}

/// Returns how many claims were judged, how many hold, and how many don't because the result is better.
#[must_use]
pub fn count<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> [usize; 3] {
    let [mut judged, mut held, mut better] = [0; 3];
    for verdict in verdicts {
        judged += usize::from(!matches!(verdict, Verdict::Open(_)));
        held += usize::from(matches!(verdict, Verdict::Holds(_)));
        better += usize::from(matches!(verdict, Verdict::Better(_)));
    }
    [judged, held, better]
}

/// Formats the counts in words.
#[must_use]
pub fn counted([judged, held, better]: [usize; 3]) -> String {
    match (judged, better) {
        (0, _) => "not evaluated".to_owned(),
        (_, 0) => format!("{held} of {judged} reproduced"),
        _ => format!("{held} of {judged} reproduced, {better} better"),
    }
}
