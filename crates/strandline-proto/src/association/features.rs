//! Extensions of the protocol: which ones each side offers in INIT and INIT ACK, which ones both agree on, and how the
//! State Cookie keeps the result.
//!
//! | step | |
//! |---|---|
//! | what this side offers | [`Features::offered_by`] the configuration, written by [`Features::offer`] |
//! | what the peer offers | [`Declared::read`] for each parameter of its INIT or INIT ACK |
//! | what both agree on | [`Features::agreed_with`]; procedures ask [`Features::has`] |
//! | State Cookie | [`Features::to_bytes`], [`Features::from_bytes`] |
//!
//! A new extension is a constant of [`Extensions`] and a row of [`TABLE`]. From there it is offered if the
//! configuration asks for it, as a parameter or by its chunk types in Supported Extensions (RFC 5061 section 4.2.7),
//! agreed on if the peer offers it too, and kept in the cookie. Without agreement its chunks are unknown
//! ([`Features::is_unknown`]). The zero checksum stands beside the table, because its declaration has a value and each
//! direction counts by itself.

mod initial_credit;

use strandline_wire::chunk::kind;
use strandline_wire::parameter::{self, Parameter};
use strandline_wire::{EncodeTlv, TlvWriter};

pub(crate) use self::initial_credit::InitialCredit;
use super::zero_checksum::ZeroChecksum;
use crate::authentication::ChunkTypes;
use crate::config::AssociationConfig;

/// An EDMID that no method has (RFC 9653 section 8).
const EDMID_RESERVED: u32 = 0;

/// A set of extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extensions(u16);

impl Extensions {
    /// Explicit congestion notification by ECNE and CWR.
    pub(crate) const ECN: Self = Self(1);
    /// Reconfiguration of streams (RFC 6525).
    pub(crate) const RE_CONFIG: Self = Self(1 << 4);
    /// Messages that their sender may abandon (RFC 3758).
    pub(crate) const PARTIAL_RELIABILITY: Self = Self(1 << 5);
    /// I-DATA instead of DATA (RFC 8260).
    pub(crate) const INTERLEAVING: Self = Self(1 << 6);
    /// Messages in I-DATA chunks that their sender may abandon.
    pub(crate) const I_FORWARD_TSN: Self = Self(1 << 7);

    /// Authentication of chunks (RFC 4895).
    pub(crate) const AUTHENTICATION: Self = Self(1 << 8);
    /// Dynamic address reconfiguration (RFC 5061).
    pub(crate) const DYNAMIC_ADDRESSES: Self = Self(1 << 9);
    /// NR-SACK instead of SACK (draft-tuexen-tsvwg-sctp-multipath section 4).
    pub(crate) const NR_SACK: Self = Self(1 << 10);
    /// Credit for each stream (docs/stream-credit.md).
    pub(crate) const STREAM_CREDIT: Self = Self(1 << 12);
    /// The peer has sent an Adaptation Layer Indication. Nothing is agreed on: it stands here for the State Cookie.
    pub(crate) const ADAPTATION: Self = Self(1 << 13);

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An extension, and how it is declared.
#[derive(Debug)]
struct Extension {
    extension: Extensions,
    /// Returns true if the configuration asks for it.
    wanted: fn(&AssociationConfig) -> bool,
    /// The type of its parameter in INIT and INIT ACK, which has no value, if it has one.
    parameter: Option<u16>,
    /// Its chunk types in Supported Extensions; none if only the parameter declares it.
    chunks: &'static [u8],
    /// Its chunk types that are unknown without agreement. A type of `chunks` that is not among them is a
    /// violation then.
    unknown_kinds: &'static [u8],
}

/// All extensions that are negotiated.
const TABLE: &[Extension] = &[
    Extension {
        extension: Extensions::ECN,
        wanted: AssociationConfig::wants_ecn,
        parameter: Some(parameter::kind::ECN_CAPABLE),
        chunks: &[],
        // ECNE and CWR are chunk types of RFC 9260 itself.
        unknown_kinds: &[],
    },
    Extension {
        extension: Extensions::RE_CONFIG,
        wanted: |config| config.extensions.stream_reconfiguration,
        parameter: None,
        chunks: &[kind::RE_CONFIG],
        unknown_kinds: &[kind::RE_CONFIG],
    },
    // The peer may declare it in either way: Linux leaves FORWARD TSN out of Supported Extensions.
    Extension {
        extension: Extensions::PARTIAL_RELIABILITY,
        wanted: |config| config.extensions.partial_reliability,
        parameter: Some(parameter::kind::FORWARD_TSN_SUPPORTED),
        chunks: &[kind::FORWARD_TSN],
        unknown_kinds: &[kind::FORWARD_TSN],
    },
    Extension {
        extension: Extensions::INTERLEAVING,
        wanted: |config| config.extensions.interleaving,
        parameter: None,
        chunks: &[kind::I_DATA],
        // I-DATA is a violation (RFC 8260 section 2.1).
        unknown_kinds: &[],
    },
    Extension {
        extension: Extensions::I_FORWARD_TSN,
        wanted: |config| config.extensions.interleaving && config.extensions.partial_reliability,
        parameter: None,
        chunks: &[kind::I_FORWARD_TSN],
        // I-FORWARD-TSN is a violation.
        unknown_kinds: &[],
    },
    // Its parameters declare it; `auth` reads and writes them. The chunk type is listed for RFC 5061.
    Extension {
        extension: Extensions::AUTHENTICATION,
        wanted: |config| config.extensions.demanded_authentication().is_some(),
        parameter: None,
        chunks: &[kind::AUTH],
        unknown_kinds: &[kind::AUTH],
    },
    Extension {
        extension: Extensions::DYNAMIC_ADDRESSES,
        wanted: |config| config.extensions.dynamic_addresses,
        parameter: None,
        chunks: &[kind::ASCONF, kind::ASCONF_ACK],
        unknown_kinds: &[kind::ASCONF, kind::ASCONF_ACK],
    },
    Extension {
        extension: Extensions::NR_SACK,
        wanted: |config| config.extensions.nr_sack,
        parameter: None,
        chunks: &[kind::NR_SACK],
        unknown_kinds: &[kind::NR_SACK],
    },
    // Its parameter declares it, which has a value.
    Extension {
        extension: Extensions::STREAM_CREDIT,
        wanted: |config| config.extensions.interleaving && config.extensions.stream_credit.is_some(),
        parameter: None,
        chunks: &[],
        unknown_kinds: &[kind::STREAM_CREDIT, kind::STREAM_BLOCKED],
    },
];

/// For each chunk type the extension without which it is unknown: that of the row that lists it, or none.
static NEEDED: [Extensions; 256] = needed_by_kind(TABLE);

const fn needed_by_kind(table: &[Extension]) -> [Extensions; 256] {
    let mut needed = [Extensions(0); 256];
    let mut row = 0;
    while row < table.len() {
        let mut place = 0;
        while place < table[row].unknown_kinds.len() {
            needed[table[row].unknown_kinds[place] as usize] = table[row].extension;
            place += 1;
        }
        row += 1;
    }
    needed
}

/// Returns the extensions that a configuration asks for.
fn wanted(table: &[Extension], config: &AssociationConfig) -> Extensions {
    let rows = table.iter().filter(|row| (row.wanted)(config));
    rows.fold(Extensions::default(), |all, row| all.or(row.extension))
}

/// Returns the extensions that a parameter of this type declares.
#[inline]
fn declared_by_parameter(table: &[Extension], kind: u16) -> Extensions {
    let rows = table.iter().filter(|row| row.parameter == Some(kind));
    rows.fold(Extensions::default(), |all, row| all.or(row.extension))
}

/// Returns the extensions that the chunk types of Supported Extensions declare.
#[inline]
fn declared_by_chunks(table: &[Extension], kinds: &[u8]) -> Extensions {
    let listed: ChunkTypes = kinds.iter().copied().collect();
    let declares =
        |row: &&Extension| !row.chunks.is_empty() && row.chunks.iter().all(|kind| listed.contains(*kind));
    table.iter().filter(declares).fold(Extensions::default(), |all, row| all.or(row.extension))
}

/// Maximum number of chunk types in Supported Extensions: those of all rows of [`TABLE`].
const KINDS_MAX: usize = kinds_of(TABLE);

/// Returns the number of chunk types that the rows of a table declare.
const fn kinds_of(table: &[Extension]) -> usize {
    match table {
        [row, rest @ ..] => row.chunks.len() + kinds_of(rest),
        [] => 0,
    }
}

/// A parameter without a value.
struct Bare(u16);

impl EncodeTlv for Bare {
    fn kind(&self) -> u16 {
        self.0
    }

    fn value_len(&self) -> usize {
        0
    }

    fn encode_value(&self, _: &mut [u8]) {}
}

/// Writes the parameters that declare extensions.
#[inline]
fn declare(table: &[Extension], extensions: Extensions, writer: &mut TlvWriter<'_>) {
    let (mut kinds, mut len) = ([0; KINDS_MAX], 0);
    for row in table.iter().filter(|row| extensions.has(row.extension)) {
        if let Some(kind) = row.parameter {
            let _ = writer.push(&Bare(kind));
        }
        // There is room for those of the whole table.
        for (place, kind) in kinds.iter_mut().skip(len).zip(row.chunks) {
            *place = *kind;
            len += 1;
        }
    }
    if let Some(kinds @ [_, ..]) = kinds.get(..len) {
        let _ = writer.push(&Parameter::SupportedExtensions(kinds));
    }
}

/// The declarations of a peer's INIT or INIT ACK.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The error detection method for a checksum of zero (RFC 9653); `None` if the peer accepts no such packets.
    edmid: Option<u32>,
    extensions: Extensions,
    /// True if Forward-TSN-Supported was among the parameters.
    forward_tsn: bool,
    /// The peer's initial credit for each of our streams, in units of 1,024 bytes; 0 without one.
    credit_kib: u16,
    /// The code point of an Adaptation Layer Indication.
    adaptation: u32,
}

impl Declared {
    /// Reads a parameter of the INIT or INIT ACK; most declare nothing.
    pub(crate) fn read(&mut self, parameter: &Parameter<'_>) {
        let declared = match *parameter {
            Parameter::SupportedExtensions(kinds) => declared_by_chunks(TABLE, kinds),
            Parameter::ZeroChecksumAcceptable { edmid } => {
                // The parameter must not occur twice (RFC 9653 section 4); its value is then ignored.
                let again = self.edmid.is_some();
                self.edmid = Some(if again { EDMID_RESERVED } else { edmid });
                return;
            }
            Parameter::StreamCredit { initial_kib: credit_kib @ 1.. } => {
                self.credit_kib = credit_kib;
                Extensions::STREAM_CREDIT
            }
            Parameter::AdaptationLayer { code_point } => {
                self.adaptation = code_point;
                Extensions::ADAPTATION
            }
            _ => {
                let kind = parameter.kind();
                self.forward_tsn |= kind == parameter::kind::FORWARD_TSN_SUPPORTED;
                declared_by_parameter(TABLE, kind)
            }
        };
        self.extensions = self.extensions.or(declared);
    }

    /// Returns the code point of an Adaptation Layer Indication (RFC 5061 section 4.2.6), if there is one.
    pub(crate) fn adaptation(&self) -> Option<u32> {
        self.extensions.has(Extensions::ADAPTATION).then_some(self.adaptation)
    }

    /// True if the peer offers dynamic address reconfiguration, and no authentication.
    pub(crate) const fn lacks_authentication(&self) -> bool {
        self.extensions.has(Extensions::DYNAMIC_ADDRESSES) && !self.extensions.has(Extensions::AUTHENTICATION)
    }

    /// Sets whether the parameters of RFC 4895 are complete and right, whatever Supported Extensions says.
    pub(crate) fn set_authentication(&mut self, declared: bool) {
        let others = self.extensions.without(Extensions::AUTHENTICATION);
        self.extensions = if declared { others.or(Extensions::AUTHENTICATION) } else { others };
    }
}

/// The extensions of an association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Which packets may have a checksum of zero.
    pub(crate) zero_checksum: ZeroChecksum,
    /// Offered by this side.
    offered: Extensions,
    /// Offered by both sides.
    agreed: Extensions,
    /// The initial credit of each stream.
    credit: InitialCredit,
}

impl Features {
    /// Returns what a configuration offers, before anything is known about the peer.
    pub(crate) fn offered_by(config: &AssociationConfig) -> Self {
        let zero_checksum = ZeroChecksum::declaring(config.extensions.zero_checksum);
        let credit = InitialCredit::granted_by(config);
        Self { zero_checksum, offered: wanted(TABLE, config), agreed: Extensions::default(), credit }
    }

    /// Returns what was offered, for another attempt to set the association up.
    pub(crate) fn offered_again(self) -> Self {
        let zero_checksum = ZeroChecksum::declaring(self.zero_checksum.declared);
        Self { zero_checksum, agreed: Extensions::default(), ..self }
    }

    /// Returns the state after the peer's declarations.
    pub(crate) fn agreed_with(self, peer: &Declared) -> Self {
        let zero_checksum = self.zero_checksum.agreed_with(peer.edmid);
        let mut agreed = self.offered.or(Extensions::ADAPTATION).and(peer.extensions);
        // The chunks of RFC 5061 are of no use without authentication.
        if !agreed.has(Extensions::AUTHENTICATION) {
            agreed = agreed.without(Extensions::DYNAMIC_ADDRESSES);
        }
        // A message that is begun in DATA chunks holds up all others until it is sent to its end.
        if !agreed.has(Extensions::INTERLEAVING) {
            agreed = agreed.without(Extensions::STREAM_CREDIT);
        }
        let credit = self.credit.with_outgoing(peer.credit_kib);
        Self { zero_checksum, agreed, credit, ..self }
    }

    /// Returns true if both sides offered the extension.
    pub(crate) const fn has(self, extension: Extensions) -> bool {
        self.agreed.has(extension)
    }

    /// Returns true if the chunk type is that of an extension that was not negotiated, and is treated as
    /// unknown, whatever the chunk holds: a peer may use the type for something else (RFC 9260 section 3.2).
    /// I-DATA and I-FORWARD-TSN are violations instead (RFC 8260 section 2.1), and FORWARD TSN beside I-DATA.
    pub(crate) fn is_unknown(self, kind: u8) -> bool {
        if kind == kind::FORWARD_TSN && self.has(Extensions::INTERLEAVING) {
            return false;
        }
        NEEDED.get(usize::from(kind)).is_some_and(|needed| !self.has(*needed))
    }

    /// Returns true if messages that were sent may be abandoned: the peer can be told to skip them.
    pub(crate) const fn skips(self) -> bool {
        let chunk = if self.has(Extensions::INTERLEAVING) {
            Extensions::I_FORWARD_TSN
        } else {
            Extensions::PARTIAL_RELIABILITY
        };
        self.has(chunk)
    }

    /// Returns true if this side offered the extension.
    pub(crate) const fn offers(self, extension: Extensions) -> bool {
        self.offered.has(extension)
    }

    /// Returns the peer's parameter that is reported as unrecognised because this side does not use its extension (RFC
    /// 3758 section 3.3.2), whole.
    pub(crate) fn unrecognised(self, peer: &Declared) -> Option<&'static [u8]> {
        const FORWARD_TSN_SUPPORTED: [u8; 4] = [0xc0, 0, 0, 4];
        (peer.forward_tsn && !self.offers(Extensions::PARTIAL_RELIABILITY)).then_some(&FORWARD_TSN_SUPPORTED)
    }

    /// Writes the parameters of an INIT.
    pub(crate) fn offer(self, writer: &mut TlvWriter<'_>) {
        self.write(self.offered, writer);
    }

    /// Writes the parameters of an INIT ACK.
    pub(crate) fn answer(self, writer: &mut TlvWriter<'_>) {
        self.write(self.agreed, writer);
    }

    fn write(self, extensions: Extensions, writer: &mut TlvWriter<'_>) {
        if let Some(parameter) = self.zero_checksum.parameter() {
            let _ = writer.push(&parameter);
        }
        declare(TABLE, extensions, writer);
    }

    /// Returns the parameter of an INIT that grants the peer's streams their initial credit, if that is offered.
    #[inline]
    pub(crate) fn offered_credit(self) -> Option<Parameter<'static>> {
        let initial_kib = self.credit.incoming_kib();
        self.offers(Extensions::STREAM_CREDIT).then_some(Parameter::StreamCredit { initial_kib })
    }

    /// Returns the parameter of an INIT ACK that grants the peer's streams their initial credit, if that is agreed on.
    #[inline]
    pub(crate) fn answered_credit(self) -> Option<Parameter<'static>> {
        self.has(Extensions::STREAM_CREDIT).then(|| self.offered_credit()).flatten()
    }

    /// Returns the initial credit of each stream, if both sides offered credit.
    pub(crate) fn stream_credit(self) -> Option<InitialCredit> {
        self.has(Extensions::STREAM_CREDIT).then_some(self.credit)
    }

    /// Sets the initial credit according to a State Cookie.
    pub(crate) const fn set_credit(&mut self, credit: InitialCredit) {
        self.credit = credit;
    }

    /// Returns the bytes of a State Cookie, without those of the initial credit and the adaptation code point.
    pub(crate) fn to_bytes(self) -> [u8; 3] {
        let [high, low] = self.agreed.0.to_be_bytes();
        [self.zero_checksum.to_byte(), high, low]
    }

    /// Returns the state according to a State Cookie.
    pub(crate) fn from_bytes([zero_checksum, high, low]: [u8; 3]) -> Self {
        let agreed = Extensions(u16::from_be_bytes([high, low]));
        let zero_checksum = ZeroChecksum::from_byte(zero_checksum);
        Self { zero_checksum, offered: agreed, agreed, credit: InitialCredit::default() }
    }
}

#[cfg(test)]
mod tests;
