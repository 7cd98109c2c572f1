//! Parses a peer's INIT or INIT ACK (RFC 9260 sections 3.3.2, 3.3.3 and 5.1.1 to 5.1.2) into its offer, or the reason
//! to refuse it.

use core::net::IpAddr;

use strandline_wire::TlvWriter;
use strandline_wire::UnrecognisedAction;
use strandline_wire::cause::{Cause, MissingParameters};
use strandline_wire::chunk::{Init, kind};
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::parameter::{Parameter, Parameters, RawParameter, SupportedAddressTypes};

use super::context::acceptable;
use super::features::{Declared, Extensions, Features};
use super::keys::{Fault, PeerParameters, Received};
use crate::authentication::Authentication;
use crate::config::PATHS_MAX;
use crate::zone;

/// Minimum a_rwnd of an INIT in bytes (section 3.3.2).
pub(crate) const A_RWND_MIN: u32 = 1500;
/// Maximum number of bytes of unrecognised parameters reported back: they share a packet with the State Cookie.
const REPORT_LEN_MAX: usize = 300;
/// Maximum length of an encoded cause in bytes.
const CAUSE_LEN_MAX: usize = 1024;

/// The contents of an INIT or INIT ACK.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) tag: VerificationTag,
    pub(crate) a_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
    /// Addresses listed besides the packet's source, without duplicates.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) cookie: Option<&'a [u8]>,
    pub(crate) preservative_ms: u32,
    /// The peer's extensions.
    pub(crate) declared: Declared,
    /// The parameters of RFC 4895.
    authentication: Received<'a>,
    /// Address types that the peer can use, if it lists them (section 3.3.2.1.5).
    address_types: Option<SupportedAddressTypes<'a>>,
    /// True if it lists IPv4 addresses, adopted or not.
    names_ipv4: bool,
    /// True if it lists IPv6 addresses, adopted or not.
    names_ipv6: bool,
    /// Set Primary IP Address (RFC 5061 section 4.2.4): the address, and the parameter.
    primary: Option<(IpAddr, &'a [u8])>,
    /// Parameters to report back, each whole; all except the last are padded.
    pub(crate) unrecognised: Vec<u8>,
}

/// How an offer is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Without an answer.
    Silently,
    /// With an ABORT that carries this cause, without any other effect: the window is too small (sections 3.3.2,
    /// 3.3.3).
    Window { causes: Vec<u8>, tag: VerificationTag },
    /// With an ABORT that carries these causes. With `reflected` the Initiate Tag was 0, so the answer reflects the
    /// packet's own tag.
    Abort { causes: Vec<u8>, tag: VerificationTag, reflected: bool },
}

impl Offer<'_> {
    /// Returns the address that the peer wants to be its primary one, of those that it lists.
    pub(crate) fn primary(&self, features: &Features) -> Option<IpAddr> {
        let (address, _) = self.primary.filter(|_| features.has(Extensions::DYNAMIC_ADDRESSES))?;
        self.addresses.iter().copied().find(|listed| zone::bare(*listed) == address)
    }

    /// Returns the parameters to report as unrecognised, given what was agreed on.
    pub(crate) fn reported(&self, features: &Features) -> impl Iterator<Item = &[u8]> {
        let unknown = Parameters::new(&self.unrecognised).iter().flatten().map(|raw| raw.as_bytes());
        unknown.chain(features.unrecognised(&self.declared)).chain(self.unrecognised_primary(features))
    }

    /// Returns the parameter that asks for a primary address, if dynamic addresses were not agreed on: it is
    /// unrecognised.
    pub(crate) fn unrecognised_primary(&self, features: &Features) -> Option<&[u8]> {
        self.primary.filter(|_| !features.has(Extensions::DYNAMIC_ADDRESSES)).map(|(_, bytes)| bytes)
    }

    /// Checks the parameters of RFC 4895, if this side has settings for it. Returns them if both sides support it.
    #[inline]
    pub(crate) fn negotiate_authentication(
        &mut self,
        settings: Option<&Authentication>,
    ) -> Result<Option<Box<PeerParameters>>, Refusal> {
        settings.map_or(Ok(None), |settings| self.check_authentication(settings))
    }

    #[cold]
    #[inline(never)]
    fn check_authentication(
        &mut self,
        settings: &Authentication,
    ) -> Result<Option<Box<PeerParameters>>, Refusal> {
        let peer = self.authentication.check(settings).map_err(|fault| match fault {
            Fault::Missing => {
                refuse(&Cause::MissingParameters(MissingParameters::AUTHENTICATION), self.tag, false)
            }
            Fault::Violation(what) => refuse(&Cause::ProtocolViolation(what.as_bytes()), self.tag, false),
        })?;
        self.declared.set_authentication(peer.is_some());
        if settings.chunks.contains(kind::ASCONF) && self.declared.lacks_authentication() {
            // RFC 5061 section 6.
            let missing = Cause::MissingParameters(MissingParameters::AUTHENTICATION);
            return Err(refuse(&missing, self.tag, false));
        }
        Ok(peer.map(Box::new))
    }

    /// True if the sender of this INIT, which came from `source`, can use an address of the family of `address`. A
    /// family that it uses itself counts as supported even if Supported Address Types does not list it (section
    /// 5.1.2).
    pub(crate) fn takes(&self, address: IpAddr, source: IpAddr) -> bool {
        let Some(types) = self.address_types else { return true };
        let (listed, used) = match address {
            IpAddr::V4(_) => (types.has_ipv4(), self.names_ipv4),
            IpAddr::V6(_) => (types.has_ipv6(), self.names_ipv6),
        };
        listed || used || source.is_ipv4() == address.is_ipv4()
    }
}

/// Parses and checks an INIT (`is_ack` false) or INIT ACK that came from `source`.
pub(crate) fn read<'a>(
    init: &Init<'a>,
    is_ack: bool,
    source: IpAddr,
    supports: impl Fn(IpAddr) -> bool,
) -> Result<Offer<'a>, Refusal> {
    let tag = init.initiate_tag;
    if tag.0 == 0 {
        // An INIT with tag 0 has no tag to answer to (section 3.3.2: discarded); an INIT ACK ends the set-up.
        return Err(if is_ack {
            refuse(&Cause::ProtocolViolation(b""), tag, true)
        } else {
            Refusal::Silently
        });
    }
    if init.outbound_streams == 0 || init.inbound_streams == 0 {
        return Err(refuse(&Cause::InvalidMandatoryParameter, tag, false));
    }
    if init.a_rwnd < A_RWND_MIN {
        return Err(Refusal::Window { causes: encode_cause(&Cause::InvalidMandatoryParameter), tag });
    }
    let mut offer = Offer {
        tag,
        a_rwnd: init.a_rwnd,
        outbound_streams: init.outbound_streams,
        inbound_streams: init.inbound_streams,
        initial_tsn: init.initial_tsn,
        addresses: Vec::new(),
        cookie: None,
        preservative_ms: 0,
        declared: Declared::default(),
        authentication: Received::default(),
        address_types: None,
        names_ipv4: false,
        names_ipv6: false,
        primary: None,
        unrecognised: Vec::new(),
    };
    for raw in init.parameters.iter() {
        let Ok(raw) = raw else {
            return Err(refuse(&Cause::ProtocolViolation(b"parameter length"), tag, false));
        };
        if !read_parameter(&mut offer, &raw, source, &supports)? {
            break;
        }
    }
    if is_ack && offer.cookie.is_none() {
        let missing = Cause::MissingParameters(MissingParameters::STATE_COOKIE);
        return Err(refuse(&missing, tag, false));
    }
    Ok(offer)
}

/// Processes one parameter. Returns false to skip the rest (section 3.2.1).
fn read_parameter<'a>(
    offer: &mut Offer<'a>,
    raw: &RawParameter<'a>,
    source: IpAddr,
    supports: &impl Fn(IpAddr) -> bool,
) -> Result<bool, Refusal> {
    if offer.authentication.read(raw) {
        return Ok(true);
    }
    let address = match raw.parse() {
        Ok(Parameter::Ipv4Address(v4)) => IpAddr::V4(v4),
        // A link-local address is on the link that the packet arrived on (RFC 4007 section 6).
        Ok(Parameter::Ipv6Address(v6)) => match zone::named_by(IpAddr::V6(v6), source) {
            Some(address) => address,
            None => return Ok(true),
        },
        Ok(Parameter::StateCookie(cookie)) => {
            offer.cookie = Some(cookie);
            return Ok(true);
        }
        Ok(Parameter::CookiePreservative { increment_ms }) => {
            offer.preservative_ms = increment_ms;
            return Ok(true);
        }
        Ok(Parameter::HostName(_)) => {
            let cause = Cause::UnresolvableAddress(raw.as_bytes());
            return Err(refuse(&cause, offer.tag, false));
        }
        Ok(Parameter::Unknown(_)) => {
            if let Some(Ok(AsconfParameter::SetPrimary { address, .. })) = raw.parse_asconf() {
                offer.primary = Some((address, raw.as_bytes()));
                return Ok(true);
            }
            return Ok(unrecognised(offer, raw));
        }
        Ok(Parameter::SupportedAddressTypes(types)) => {
            offer.address_types = Some(types);
            return Ok(true);
        }
        // Unrecognized Parameter needs no reaction.
        Ok(other) => {
            offer.declared.read(&other);
            return Ok(true);
        }
        Err(_) => return Err(refuse(&Cause::ProtocolViolation(b"parameter length"), offer.tag, false)),
    };
    offer.names_ipv4 |= address.is_ipv4();
    offer.names_ipv6 |= address.is_ipv6();
    let fits = offer.addresses.len() < PATHS_MAX - 1 && address != source;
    if fits && acceptable(address, source) && supports(address) && !offer.addresses.contains(&address) {
        offer.addresses.push(address);
    }
    Ok(true)
}

fn unrecognised(offer: &mut Offer<'_>, raw: &RawParameter<'_>) -> bool {
    let action = UnrecognisedAction::of_parameter(raw.kind);
    let reports = matches!(action, UnrecognisedAction::StopAndReport | UnrecognisedAction::SkipAndReport);
    let bytes = raw.as_bytes();
    if reports {
        report_parameter(&mut offer.unrecognised, bytes);
    }
    matches!(action, UnrecognisedAction::Skip | UnrecognisedAction::SkipAndReport)
}

/// Adds a parameter to those that are reported as unrecognised, if there is room.
pub(super) fn report_parameter(list: &mut Vec<u8>, parameter: &[u8]) {
    append_tlv(list, parameter, REPORT_LEN_MAX);
}

pub(crate) fn refuse(cause: &Cause<'_>, tag: VerificationTag, reflected: bool) -> Refusal {
    Refusal::Abort { causes: encode_cause(cause), tag, reflected }
}

/// Encodes one cause, without padding: Chunk Length counts the padding of every cause except the last (section 3.2).
/// [`append_tlv`] adds a further one. Returns nothing if the cause quotes more than fits.
pub(crate) fn encode_cause(cause: &Cause<'_>) -> Vec<u8> {
    let mut buffer = vec![0; CAUSE_LEN_MAX];
    let mut writer = TlvWriter::new(&mut buffer);
    let _ = writer.push(cause);
    let len = writer.len();
    buffer.truncate(len);
    buffer
}

/// Appends a whole cause or parameter to a list of at most `len_max` bytes, after the padding of the one before it. A
/// list without room for it does not change.
pub(crate) fn append_tlv(list: &mut Vec<u8>, tlv: &[u8], len_max: usize) {
    let padded = list.len().next_multiple_of(4);
    if padded + tlv.len() <= len_max {
        list.resize(padded, 0);
        list.extend_from_slice(tlv);
    }
}
