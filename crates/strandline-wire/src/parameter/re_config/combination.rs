//! Which parameters a RE-CONFIG chunk may hold together (RFC 6525 section 3.1).

use thiserror::Error;

use super::super::raw::Parameters;
use super::ReConfigParameter;

/// The parameters of a RE-CONFIG chunk whose combination is allowed.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Combination<'a> {
    /// The first parameter.
    pub first: ReConfigParameter<'a>,
    /// The second parameter, if there are two.
    pub second: Option<ReConfigParameter<'a>>,
}

/// Parameters that a RE-CONFIG chunk must not hold.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Error)]
pub enum CombinationError {
    /// There is no parameter.
    #[error("a RE-CONFIG chunk without a parameter")]
    Empty,
    /// A parameter has a wrong length, or is of a type that does not belong here.
    #[error("a RE-CONFIG chunk with an invalid parameter")]
    Invalid,
    /// The combination is none of those that section 3.1 lists.
    #[error("a RE-CONFIG chunk with parameters that must not occur together")]
    NotAllowed,
}

impl CombinationError {
    /// Returns the message as text that lasts.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "a RE-CONFIG chunk without a parameter",
            Self::Invalid => "a RE-CONFIG chunk with an invalid parameter",
            Self::NotAllowed => "a RE-CONFIG chunk with parameters that must not occur together",
        }
    }
}

impl<'a> Combination<'a> {
    /// Checks the parameters of a RE-CONFIG chunk. The two of an allowed pair may have either order: section 3.1 lists
    /// combinations, and stacks differ.
    ///
    /// # Errors
    /// If there is none, one is invalid, or the combination is not allowed.
    pub fn of(parameters: Parameters<'a>) -> Result<Self, CombinationError> {
        let mut all = parameters
            .iter()
            .map(|raw| raw.ok().and_then(|raw| raw.parse_re_config()?.ok()).ok_or(CombinationError::Invalid));
        let first = all.next().ok_or(CombinationError::Empty)??;
        let second = all.next().transpose()?;
        if all.next().is_some() || !second.is_none_or(|second| may_occur_together(&first, &second)) {
            return Err(CombinationError::NotAllowed);
        }
        Ok(Self { first, second })
    }

    /// Returns the parameters.
    pub fn iter(&self) -> impl Iterator<Item = ReConfigParameter<'a>> + use<'a> {
        [Some(self.first), self.second].into_iter().flatten()
    }
}

fn may_occur_together(first: &ReConfigParameter<'_>, second: &ReConfigParameter<'_>) -> bool {
    use ReConfigParameter as P;
    matches!(
        (first, second),
        (P::OutgoingSsnReset(_), P::IncomingSsnReset(_) | P::Response(_))
            | (P::IncomingSsnReset(_), P::OutgoingSsnReset(_))
            | (P::AddOutgoingStreams(_), P::AddIncomingStreams(_))
            | (P::AddIncomingStreams(_), P::AddOutgoingStreams(_))
            | (P::Response(_), P::Response(_) | P::OutgoingSsnReset(_))
    )
}
