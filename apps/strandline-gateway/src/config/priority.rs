//! Which connections go before others.

use std::sync::Arc;

use strandline_ops::ConfigErrors;

use super::file::{File, PriorityClass};
use super::wrong;
use crate::protocol::Destination;
use crate::rules::{Rule, Rules};

/// Bytes of each direction of a connection that go before others, unless a rule says otherwise: most pages and answers.
const BEGINNING: u64 = 256 << 10;

/// What a rule says of connections to some destinations.
#[derive(Debug, Clone)]
pub(crate) struct PriorityRule {
    /// `None`: any.
    to: Option<Rules>,
    beginning: u64,
}

/// Returns how many bytes of each direction of a connection go before others.
pub(crate) fn beginning(rules: &[Arc<PriorityRule>], to: &Destination) -> u64 {
    let is_for = |rule: &&Arc<PriorityRule>| rule.to.as_ref().is_none_or(|rules| rules.fit(to));
    rules.iter().find(is_for).map_or(BEGINNING, |rule| rule.beginning)
}

/// Checks the rules.
pub(super) fn check(file: &File, errors: &mut ConfigErrors) -> Vec<Arc<PriorityRule>> {
    let check_one = |(at, rule): (usize, &super::file::PriorityRule)| {
        let key = |key: &str| format!("priority[{at}].{key}");
        let to = errors.take_all(&key("to"), rule.to.0.iter().map(|text| text.parse::<Rule>()));
        let beginning = match (rule.class, rule.first_kib) {
            (Some(PriorityClass::Interactive), None) => u64::MAX,
            (Some(PriorityClass::Bulk), None) => 0,
            (None, Some(kib)) => u64::from(kib) << 10,
            _ => {
                errors.add(wrong(key("class"), "either class or first_kib"));
                0
            }
        };
        Arc::new(PriorityRule { to: (!to.is_empty()).then(|| Rules::new(to)), beginning })
    };
    file.priority.iter().enumerate().map(check_one).collect()
}
