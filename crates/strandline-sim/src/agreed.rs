//! Which extensions the associations of a run agreed on, so that a test notices if one is never in use.

use strandline_proto::config::AssociationConfig;
use strandline_proto::stats::AgreedExtensions;

/// The names of extensions, in the order of the bits of a [`Agreed`].
pub const EXTENSIONS: [&str; 8] = [
    "ECN",
    "stream reconfiguration",
    "dynamic addresses",
    "partial reliability",
    "authentication",
    "interleaving",
    "NR-SACK",
    "stream credit",
];

/// Sets of extensions: bit n is that of the n-th name in [`EXTENSIONS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Those that both sides of some association use.
    pub on: u16,
    /// Those that one side of some association wants and the other one does not.
    pub one_sided: u16,
}

impl Agreed {
    /// Records an established association: what it uses, and what this side wants.
    pub(crate) fn note(&mut self, agreed: AgreedExtensions, config: &AssociationConfig) {
        let on = bits([
            agreed.ecn,
            agreed.stream_reconfiguration,
            agreed.dynamic_addresses,
            agreed.partial_reliability,
            agreed.authentication,
            agreed.interleaving,
            agreed.nr_sack,
            agreed.stream_credit,
        ]);
        let wanted = &config.extensions;
        let wanted = bits([
            wanted.ecn,
            wanted.stream_reconfiguration,
            wanted.dynamic_addresses,
            wanted.partial_reliability,
            wanted.authentication.is_some(),
            wanted.interleaving,
            wanted.nr_sack,
            wanted.stream_credit.is_some(),
        ]);
        self.on |= on;
        self.one_sided |= wanted & !on;
    }

    /// Adds those of other associations.
    pub fn add(&mut self, other: Self) {
        self.on |= other.on;
        self.one_sided |= other.one_sided;
    }
}

fn bits(flags: [bool; EXTENSIONS.len()]) -> u16 {
    flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(flag))
}
