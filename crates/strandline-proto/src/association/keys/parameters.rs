//! The parameters of RFC 4895 in INIT and INIT ACK: ours, and those of the peer (section 6.1).

use strandline_wire::parameter::{HmacIdentifiers, Parameter, RawParameter, kind};
use strandline_wire::{TLV_HEADER_LEN, TlvWriter};

use super::derivation::Algorithm;
use crate::authentication::{Authentication, ChunkTypes, HmacAlgorithms};

/// Length of a Random Number in bytes.
pub(crate) const RANDOM_LEN: usize = 32;

/// Maximum number of HMAC identifiers of a peer, which the State Cookie holds. Four are assigned.
const HMACS_MAX: usize = 32;

/// Maximum number of bytes that a peer's parameters and our Random Number take in a State Cookie.
pub(crate) const COOKIE_BYTES_MAX: usize = 2 * RANDOM_LEN + 2 + 256 + 1 + 2 * HMACS_MAX;

/// Returns the list of algorithms that an endpoint accepts.
pub(in crate::association) const fn identifiers(hmacs: HmacAlgorithms) -> HmacIdentifiers<'static> {
    match hmacs {
        HmacAlgorithms::Sha256 => HmacIdentifiers::SHA256_SHA1,
        HmacAlgorithms::Sha1 => HmacIdentifiers::SHA1_SHA256,
        HmacAlgorithms::Sha1Only => HmacIdentifiers::SHA1,
    }
}

/// Our parameters.
#[derive(Debug, Clone)]
pub(crate) struct OwnParameters {
    random: [u8; RANDOM_LEN],
    /// Left out if it is empty.
    chunks: Vec<u8>,
    hmacs: HmacIdentifiers<'static>,
}

impl OwnParameters {
    pub(crate) fn new(settings: &Authentication, random: [u8; RANDOM_LEN]) -> Self {
        Self { random, chunks: settings.chunks.iter().collect(), hmacs: identifiers(settings.hmacs) }
    }

    /// Writes the parameters for INIT and INIT ACK.
    #[cold]
    pub(crate) fn write(&self, writer: &mut TlvWriter<'_>) {
        let _ = writer.push(&Parameter::Random(&self.random));
        if !self.chunks.is_empty() {
            let _ = writer.push(&Parameter::ChunkList(&self.chunks));
        }
        let _ = writer.push(&Parameter::HmacAlgo(self.hmacs));
    }

    /// Returns our key vector.
    pub(in crate::association) fn vector(&self) -> Vec<u8> {
        let chunks = (!self.chunks.is_empty()).then_some(&self.chunks[..]);
        vector(&self.random, chunks, self.hmacs.as_bytes())
    }
}

/// Concatenates the parameters of one side, without padding. Those that were not sent are left out.
fn vector(random: &[u8], chunks: Option<&[u8]>, hmacs: &[u8]) -> Vec<u8> {
    let parameters =
        [(kind::RANDOM, Some(random)), (kind::CHUNK_LIST, chunks), (kind::HMAC_ALGO, Some(hmacs))];
    let mut out = Vec::new();
    for (kind, value) in parameters {
        let Some(value) = value else { continue };
        out.extend_from_slice(&kind.to_be_bytes());
        // At most 260, as in the chunk that it came in.
        out.extend_from_slice(&((TLV_HEADER_LEN + value.len()) as u16).to_be_bytes());
        out.extend_from_slice(value);
    }
    out
}

/// Why a peer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not support authentication, which is required.
    Missing,
    /// It broke a rule.
    Violation(&'static str),
}

/// The parameters of a peer's INIT or INIT ACK as they are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Received<'a> {
    random: Option<&'a [u8]>,
    chunks: Option<&'a [u8]>,
    hmacs: Option<HmacIdentifiers<'a>>,
    fault: Option<&'static str>,
}

impl<'a> Received<'a> {
    /// Reads a parameter. Returns false if it is another one.
    #[inline]
    pub(crate) fn read(&mut self, raw: &RawParameter<'a>) -> bool {
        let is_one = matches!(raw.kind, kind::RANDOM | kind::CHUNK_LIST | kind::HMAC_ALGO);
        if is_one {
            self.read_one(raw);
        }
        is_one
    }

    #[cold]
    #[inline(never)]
    fn read_one(&mut self, raw: &RawParameter<'a>) {
        let again = match raw.parse() {
            Ok(Parameter::Random(random)) => self.random.replace(random).is_some(),
            Ok(Parameter::ChunkList(chunks)) => self.chunks.replace(chunks).is_some(),
            Ok(Parameter::HmacAlgo(hmacs)) => self.hmacs.replace(hmacs).is_some(),
            _ => {
                self.fault = Some("a parameter of RFC 4895 has a wrong length");
                false
            }
        };
        if again {
            self.fault = Some("a parameter of RFC 4895 occurs twice");
        }
    }

    /// Checks the parameters. Returns `None` if the peer does not support authentication.
    pub(crate) fn check(self, settings: &Authentication) -> Result<Option<PeerParameters>, Fault> {
        if let Some(fault) = self.fault {
            return Err(Fault::Violation(fault));
        }
        let (random, hmacs) = match (self.random, self.hmacs) {
            (Some(random), Some(hmacs)) => (random, hmacs),
            (None, None) if self.chunks.is_none() => {
                return if settings.required { Err(Fault::Missing) } else { Ok(None) };
            }
            _ => return Err(Fault::Violation("RANDOM or HMAC-ALGO is missing")),
        };
        let Ok(random) = <[u8; RANDOM_LEN]>::try_from(random) else {
            return Err(Fault::Violation("RANDOM has not 32 bytes"));
        };
        if !hmacs.iter().any(|hmac| hmac == Algorithm::Sha1.identifier()) {
            return Err(Fault::Violation("HMAC-ALGO does not list SHA-1"));
        }
        if hmacs.iter().len() > HMACS_MAX {
            return Err(Fault::Violation("HMAC-ALGO lists too many algorithms"));
        }
        let chunks = self.chunks.map(<[u8]>::to_vec);
        Ok(Some(PeerParameters { random, chunks, hmacs: hmacs.as_bytes().to_vec() }))
    }
}

/// The parameters of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerParameters {
    random: [u8; RANDOM_LEN],
    chunks: Option<Vec<u8>>,
    /// HMAC Identifiers as they are encoded.
    hmacs: Vec<u8>,
}

impl PeerParameters {
    /// Returns the chunk types that must be sent authenticated.
    pub(in crate::association) fn chunk_types(&self) -> ChunkTypes {
        ChunkTypes::of_peer(self.chunks.as_deref().unwrap_or_default())
    }

    /// Returns the algorithm to send with: the first of the peer's list that is known.
    pub(in crate::association) fn algorithm(&self) -> Algorithm {
        let identifiers = self.hmacs.as_chunks::<2>().0.iter().map(|bytes| u16::from_be_bytes(*bytes));
        identifiers.filter_map(Algorithm::of).next().unwrap_or(Algorithm::Sha1)
    }

    /// Returns the peer's key vector.
    pub(in crate::association) fn vector(&self) -> Vec<u8> {
        vector(&self.random, self.chunks.as_deref(), &self.hmacs)
    }
}

/// What a State Cookie keeps: both Random Numbers and the peer's lists. It contains no shared key (section 6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CookieParameters {
    pub(crate) random: [u8; RANDOM_LEN],
    pub(crate) peer: PeerParameters,
}

/// Length that stands for a CHUNKS parameter that was not sent.
const NO_CHUNKS: u16 = u16::MAX;

impl CookieParameters {
    /// Writes the bytes of a State Cookie.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let PeerParameters { random, chunks, hmacs } = &self.peer;
        out.extend_from_slice(&self.random);
        out.extend_from_slice(random);
        // The lists were limited when they were read.
        let len = chunks.as_ref().map_or(NO_CHUNKS, |chunks| chunks.len() as u16);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(chunks.as_deref().unwrap_or_default());
        out.push(hmacs.len() as u8);
        out.extend_from_slice(hmacs);
    }

    /// Reads the bytes of a State Cookie. Returns the rest as well.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (random, rest) = bytes.split_first_chunk::<RANDOM_LEN>()?;
        let (peer_random, rest) = rest.split_first_chunk::<RANDOM_LEN>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (chunks, rest) = match u16::from_be_bytes(*len) {
            NO_CHUNKS => (None, rest),
            len => {
                let (chunks, rest) = rest.split_at_checked(usize::from(len))?;
                (Some(chunks.to_vec()), rest)
            }
        };
        let (len, rest) = rest.split_first()?;
        let (hmacs, rest) = rest.split_at_checked(usize::from(*len))?;
        let peer = PeerParameters { random: *peer_random, chunks, hmacs: hmacs.to_vec() };
        Some((Self { random: *random, peer }, rest))
    }
}
