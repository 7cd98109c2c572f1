//! Formats a packet as one line in the manner of tcpdump: every chunk with its main fields, parameters and
//! causes.
//!
//! ```
//! use strandline_wire::{PacketBuilder, Shutdown, ShutdownComplete, Tsn, VerificationTag, print};
//! let mut buffer = [0; 64];
//! let mut builder = PacketBuilder::new(&mut buffer, 5000, 9, VerificationTag(0x1234));
//! assert!(builder.push(&Shutdown { cumulative_tsn: Tsn(41) }));
//! let len = builder.finish();
//! assert_eq!(print::line(&buffer[..len]).to_string(), "5000 > 9 tag 0x00001234: SHUTDOWN cum 41");
//! ```
//!
//! Whatever the bytes are, the line is safe to log: no control characters, and long lists and texts are cut
//! off.

use core::fmt::{self, Display, Formatter, Write};

use crate::cause::{self, Cause, Causes, RawCause};
use crate::chunk::{
    self, Chunk, Data, ForwardTsn, GapBlock, IData, IForwardTsn, Init, NrSack, RawChunk, Sack,
};
use crate::error::ParameterError;
use crate::packet::Packet;
use crate::parameter::asconf::AsconfParameter;
use crate::parameter::re_config::{AddIncomingStreams, AddOutgoingStreams, ReConfigParameter, StreamList};
use crate::parameter::{self, Parameter, Parameters, RawParameter};

/// Maximum number of list elements and of text bytes that are shown; the rest is only counted.
const SHOWN_MAX: usize = 16;
const TEXT_SHOWN_MAX: usize = 64;

/// Returns the line for one packet, given whole from its common header on. Nothing is formatted until the
/// result is displayed.
#[must_use]
pub const fn line(packet: &[u8]) -> Line<'_> {
    Line { packet }
}

/// The displayable line that [`line()`] returns.
#[derive(Debug, Copy, Clone)]
pub struct Line<'a> {
    packet: &'a [u8],
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let packet = match Packet::parse(self.packet) {
            Ok(packet) => packet,
            Err(error) => return write!(f, "not SCTP: {error}"),
        };
        write!(f, "{} > {} ", packet.source_port(), packet.destination_port())?;
        write!(f, "tag {}:", packet.verification_tag())?;
        match packet.checksum() {
            _ if packet.verify_checksum() => {}
            0 => f.write_str(" zero checksum;")?,
            wrong => write!(f, " bad checksum {wrong:#010x};")?,
        }
        let mut separator = " ";
        for chunk in packet.chunks() {
            f.write_str(separator)?;
            separator = "; ";
            match chunk {
                Ok(chunk) => show_raw_chunk(f, &chunk)?,
                Err(error) => write!(f, "malformed: {error}")?,
            }
        }
        Ok(())
    }
}

/// Returns the error causes of an ERROR or ABORT as a list in brackets. Empty for none. Nothing is formatted
/// until the result is displayed.
///
/// ```
/// use strandline_wire::cause::Causes;
/// use strandline_wire::print;
/// let causes = Causes::new(&[0, 12, 0, 8, b'b', b'y', b'e', 7]);
/// assert_eq!(print::causes(causes).to_string(), r#"[User-Initiated Abort "bye\x07"]"#);
/// ```
#[must_use]
pub const fn causes(causes: Causes<'_>) -> CauseList<'_> {
    CauseList { causes }
}

/// The displayable list that [`causes()`] returns.
#[derive(Debug, Copy, Clone)]
pub struct CauseList<'a> {
    causes: Causes<'a>,
}

impl Display for CauseList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show_bracketed(f, self.causes.into_iter(), show_cause, "[")
    }
}

fn show_raw_chunk(f: &mut Formatter<'_>, raw: &RawChunk<'_>) -> fmt::Result {
    match chunk::kind::name(raw.kind) {
        Some(name) => f.write_str(name)?,
        None => write!(f, "chunk {:#04x}", raw.kind)?,
    }
    match raw.parse() {
        Ok(chunk) => show_chunk(f, &chunk),
        Err(error) => write!(f, " malformed: {error}"),
    }
}

fn show_chunk(f: &mut Formatter<'_>, chunk: &Chunk<'_>) -> fmt::Result {
    match chunk {
        Chunk::Data(data) => show_data(f, data),
        Chunk::Init(init) | Chunk::InitAck(init) => show_init(f, init),
        Chunk::Sack(sack) => show_sack(f, sack),
        Chunk::Heartbeat(heartbeat) | Chunk::HeartbeatAck(heartbeat) => show_len(f, heartbeat.info),
        Chunk::Abort(abort) => {
            show_tag_reflected(f, abort.tag_reflected)?;
            show_causes(f, abort.causes)
        }
        Chunk::Shutdown(shutdown) => write!(f, " cum {}", shutdown.cumulative_tsn),
        Chunk::Error(error) => show_causes(f, error.causes),
        Chunk::CookieEcho(echo) => show_len(f, echo.cookie),
        Chunk::Ecne(chunk::Ecne { lowest_tsn, packets: None }) => write!(f, " tsn {lowest_tsn}"),
        Chunk::Ecne(chunk::Ecne { lowest_tsn, packets: Some(packets) }) => {
            write!(f, " tsn {lowest_tsn} packets {packets}")
        }
        Chunk::Cwr(cwr) => write!(f, " tsn {}", cwr.lowest_tsn),
        Chunk::ShutdownComplete(complete) => show_tag_reflected(f, complete.tag_reflected),
        Chunk::Auth(auth) => write!(f, " key {} hmac {} mac {} bytes", auth.key, auth.hmac, auth.mac.len()),
        Chunk::Asconf(asconf) => {
            write!(f, " {} from {}", asconf.number, asconf.address)?;
            show_parameters(f, asconf.parameters)
        }
        Chunk::AsconfAck(ack) => {
            write!(f, " {}", ack.number)?;
            show_parameters(f, ack.responses)
        }
        Chunk::ReConfig(re_config) => show_parameters(f, re_config.parameters),
        Chunk::ForwardTsn(forward) => show_forward_tsn(f, forward),
        Chunk::NrSack(sack) => show_nr_sack(f, sack),
        Chunk::IData(data) => show_i_data(f, data),
        Chunk::IForwardTsn(forward) => show_i_forward_tsn(f, forward),
        Chunk::StreamCredit(chunk) => {
            write!(f, " cum {}", chunk.cumulative_tsn())?;
            show_list(f, " credits", chunk.credits(), |f, credit| {
                write!(f, " {}:{}/{}", credit.stream, credit.accepted, credit.limit)
            })
        }
        Chunk::StreamBlocked(chunk) => {
            show_list(f, " streams", chunk.streams(), |f, stream| write!(f, " {stream}"))
        }
        Chunk::Pad(pad) => write!(f, " {} bytes", pad.padding_len),
        Chunk::ShutdownAck | Chunk::CookieAck => Ok(()),
        Chunk::Unknown(raw) => {
            write!(f, " flags {:#04x}", raw.flags)?;
            show_len(f, raw.value)
        }
    }
}

fn show_data(f: &mut Formatter<'_>, data: &Data<'_>) -> fmt::Result {
    write!(f, " tsn {} stream {}", data.tsn, data.stream)?;
    if !data.unordered {
        write!(f, " ssn {}", data.ssn)?;
    }
    write!(f, " ppid {} ", data.ppid)?;
    show_bits(f, [data.immediate, data.unordered, data.beginning, data.ending])?;
    show_len(f, data.payload)
}

fn show_i_data(f: &mut Formatter<'_>, data: &IData<'_>) -> fmt::Result {
    write!(f, " tsn {} stream {} mid {} ", data.tsn, data.stream, data.mid)?;
    if data.beginning {
        write!(f, "ppid {} ", data.ppid)?;
    } else {
        write!(f, "fsn {} ", data.fsn)?;
    }
    show_bits(f, [data.immediate, data.unordered, data.beginning, data.ending])?;
    show_len(f, data.payload)
}

/// Shows the I, U, B and E bits that are set.
fn show_bits(f: &mut Formatter<'_>, set: [bool; 4]) -> fmt::Result {
    let bits = set.into_iter().zip(['I', 'U', 'B', 'E']);
    for (_, letter) in bits.filter(|(set, _)| *set) {
        f.write_char(letter)?;
    }
    if set.contains(&true) { Ok(()) } else { f.write_char('-') }
}

fn show_init(f: &mut Formatter<'_>, init: &Init<'_>) -> fmt::Result {
    write!(f, " tag {} rwnd {}", init.initiate_tag, init.a_rwnd)?;
    write!(f, " out {} in {}", init.outbound_streams, init.inbound_streams)?;
    write!(f, " tsn {}", init.initial_tsn)?;
    show_parameters(f, init.parameters)
}

fn show_sack(f: &mut Formatter<'_>, sack: &Sack<'_>) -> fmt::Result {
    write!(f, " cum {} rwnd {}", sack.cumulative_tsn(), sack.a_rwnd())?;
    show_list(f, " gaps", sack.gap_blocks(), |f, block| write!(f, " +{}-{}", block.start, block.end))?;
    show_list(f, " dups", sack.duplicates(), |f, tsn| write!(f, " {tsn}"))
}

fn show_nr_sack(f: &mut Formatter<'_>, sack: &NrSack<'_>) -> fmt::Result {
    write!(f, " cum {} rwnd {}", sack.cumulative_tsn(), sack.a_rwnd())?;
    let renegable = sack.gap_blocks().len() - sack.non_renegable().len();
    let block = |f: &mut Formatter<'_>, block: GapBlock| write!(f, " +{}-{}", block.start, block.end);
    let gaps = sack.gap_blocks();
    show_list(f, " gaps", gaps.take(renegable), block)?;
    show_list(f, " kept", sack.non_renegable(), block)?;
    show_list(f, " dups", sack.duplicates(), |f, tsn| write!(f, " {tsn}"))
}

fn show_forward_tsn(f: &mut Formatter<'_>, forward: &ForwardTsn<'_>) -> fmt::Result {
    write!(f, " new cum {}", forward.new_cumulative_tsn())?;
    show_list(f, " skipped", forward.skipped(), |f, (stream, ssn)| write!(f, " {stream}:{ssn}"))
}

fn show_i_forward_tsn(f: &mut Formatter<'_>, forward: &IForwardTsn<'_>) -> fmt::Result {
    write!(f, " new cum {}", forward.new_cumulative_tsn())?;
    show_list(f, " skipped", forward.skipped(), |f, skipped| {
        let unordered = if skipped.unordered { "U" } else { "" };
        write!(f, " {}:{unordered}{}", skipped.stream, skipped.mid)
    })
}

fn show_tag_reflected(f: &mut Formatter<'_>, reflected: bool) -> fmt::Result {
    f.write_str(if reflected { " T" } else { "" })
}

fn show_causes(f: &mut Formatter<'_>, causes: Causes<'_>) -> fmt::Result {
    show_bracketed(f, causes.into_iter(), show_cause, " [")
}

fn show_parameters(f: &mut Formatter<'_>, parameters: Parameters<'_>) -> fmt::Result {
    show_bracketed(f, parameters.into_iter(), show_parameter, " [")
}

fn show_cause(f: &mut Formatter<'_>, raw: &RawCause<'_>) -> fmt::Result {
    match cause::code::name(raw.code) {
        Some(name) => f.write_str(name)?,
        None => write!(f, "cause {}", raw.code)?,
    }
    let cause = match raw.parse() {
        Ok(cause) => cause,
        Err(error) => return write!(f, " malformed: {error}"),
    };
    match cause {
        Cause::InvalidStream { stream } => write!(f, " {stream}"),
        Cause::MissingParameters(missing) => show_list(f, "", missing.iter(), show_parameter_kind),
        Cause::StaleCookie { staleness_us } => write!(f, " {staleness_us} us"),
        Cause::NoUserData { tsn } => write!(f, " tsn {tsn}"),
        Cause::UnresolvableAddress(bytes) => show_parameters(f, Parameters::new(bytes)),
        Cause::UnrecognisedChunk(bytes) => match bytes.first() {
            Some(kind) => write!(f, " {kind:#04x}, {} bytes", bytes.len()),
            None => show_len(f, bytes),
        },
        Cause::UnrecognisedParameters(parameters) | Cause::RestartWithNewAddresses(parameters) => {
            show_parameters(f, parameters)
        }
        Cause::DeleteLastAddress(refused)
        | Cause::ResourceShortage(refused)
        | Cause::DeleteSourceAddress(refused)
        | Cause::NoAuthorization(refused) => show_refused(f, refused),
        Cause::UserInitiatedAbort(text) | Cause::ProtocolViolation(text) => show_text(f, text),
        Cause::OutOfResource
        | Cause::InvalidMandatoryParameter
        | Cause::CookieWhileShuttingDown
        | Cause::IllegalAsconfAck => Ok(()),
        Cause::RestartWithNewEncapsulationPort { current, new } => write!(f, " {current}, now {new}"),
        Cause::UnsupportedHmac { hmac } => write!(f, " {hmac}"),
        Cause::Unknown(raw) => show_len(f, raw.value),
    }
}

fn show_parameter(f: &mut Formatter<'_>, raw: &RawParameter<'_>) -> fmt::Result {
    match parameter::kind::name(raw.kind) {
        Some(name) => f.write_str(name)?,
        None => write!(f, "parameter {:#06x}", raw.kind)?,
    }
    if let Some(parsed) = raw.parse_re_config() {
        return show_re_config(f, parsed);
    }
    if let Some(parsed) = raw.parse_asconf() {
        return show_asconf(f, parsed);
    }
    let parameter = match raw.parse() {
        Ok(parameter) => parameter,
        Err(error) => return write!(f, " malformed: {error}"),
    };
    match parameter {
        Parameter::Ipv4Address(address) => write!(f, " {address}"),
        Parameter::Ipv6Address(address) => write!(f, " {address}"),
        Parameter::CookiePreservative { increment_ms } => write!(f, " {increment_ms} ms"),
        Parameter::HostName(name) => show_text(f, name),
        Parameter::SupportedAddressTypes(types) => show_list(f, "", types.iter(), show_parameter_kind),
        Parameter::UnrecognisedParameter(bytes) => match bytes.first_chunk() {
            Some(kind) => write!(f, " {:#06x}, {} bytes", u16::from_be_bytes(*kind), bytes.len()),
            None => show_len(f, bytes),
        },
        Parameter::HeartbeatInfo(bytes) | Parameter::StateCookie(bytes) | Parameter::Random(bytes) => {
            show_len(f, bytes)
        }
        Parameter::Pad { padding_len } => write!(f, " {padding_len} bytes"),
        Parameter::EcnCapable | Parameter::ForwardTsnSupported => Ok(()),
        Parameter::HmacAlgo(list) => show_list(f, "", list.iter(), |f, hmac| write!(f, " {hmac}")),
        Parameter::SupportedExtensions(kinds) | Parameter::ChunkList(kinds) => {
            show_list(f, "", kinds.iter(), |f, kind| write!(f, " {kind}"))
        }
        Parameter::AdaptationLayer { code_point } => write!(f, " {code_point:#010x}"),
        Parameter::StreamCredit { initial_kib } => write!(f, " {initial_kib} KiB"),
        Parameter::ZeroChecksumAcceptable { edmid } => write!(f, " EDMID {edmid}"),
        Parameter::Unknown(raw) => show_len(f, raw.value),
    }
}

fn show_asconf(f: &mut Formatter<'_>, parsed: Result<AsconfParameter<'_>, ParameterError>) -> fmt::Result {
    match parsed {
        Err(error) => write!(f, " malformed: {error}"),
        Ok(
            AsconfParameter::AddIp { id, address }
            | AsconfParameter::DeleteIp { id, address }
            | AsconfParameter::SetPrimary { id, address },
        ) => write!(f, " {id} {address}"),
        Ok(AsconfParameter::Error { id, causes }) => {
            write!(f, " {id}")?;
            // A cause quotes a parameter, which may be such an indication again.
            match Causes::new(causes).iter().next() {
                None => Ok(()),
                Some(Err(error)) => write!(f, " malformed: {error}"),
                Some(Ok(raw)) => match cause::code::name(raw.code) {
                    Some(name) => write!(f, " {name}"),
                    None => write!(f, " cause {}", raw.code),
                },
            }
        }
        Ok(AsconfParameter::Success { id }) => write!(f, " {id}"),
    }
}

fn show_re_config(
    f: &mut Formatter<'_>,
    parsed: Result<ReConfigParameter<'_>, ParameterError>,
) -> fmt::Result {
    let parameter = match parsed {
        Ok(parameter) => parameter,
        Err(error) => return write!(f, " malformed: {error}"),
    };
    if let Some(request) = parameter.request() {
        write!(f, " {request}")?;
    }
    match parameter {
        ReConfigParameter::OutgoingSsnReset(reset) => {
            write!(f, " response {} tsn {}", reset.response, reset.last_tsn)?;
            show_streams(f, reset.streams)
        }
        ReConfigParameter::IncomingSsnReset(reset) => show_streams(f, reset.streams),
        ReConfigParameter::SsnTsnReset(_) => Ok(()),
        ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { streams, .. })
        | ReConfigParameter::AddIncomingStreams(AddIncomingStreams { streams, .. }) => {
            write!(f, " +{streams}")
        }
        ReConfigParameter::Response(response) => {
            write!(f, " {} ", response.response)?;
            match response.result.name() {
                Some(name) => f.write_str(name)?,
                None => write!(f, "result {}", response.result.0)?,
            }
            match response.next_tsns {
                Some(next) => write!(f, " next tsn {} of peer {}", next.sender, next.receiver),
                None => Ok(()),
            }
        }
    }
}

fn show_streams(f: &mut Formatter<'_>, streams: StreamList<'_>) -> fmt::Result {
    show_list(f, " streams", streams.iter(), |f, stream| write!(f, " {stream}"))
}

/// Shows the type of the parameter that a cause quotes.
fn show_refused(f: &mut Formatter<'_>, refused: Parameters<'_>) -> fmt::Result {
    match refused.iter().next() {
        None => Ok(()),
        Some(Err(error)) => write!(f, " malformed: {error}"),
        Some(Ok(raw)) => show_parameter_kind(f, raw.kind),
    }
}

fn show_parameter_kind(f: &mut Formatter<'_>, kind: u16) -> fmt::Result {
    match parameter::kind::name(kind) {
        Some(name) => write!(f, " {name}"),
        None => write!(f, " {kind:#06x}"),
    }
}

fn show_len(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    write!(f, " {} bytes", bytes.len())
}

/// Writes a peer's text between quotes, with everything but printable ASCII escaped.
fn show_text(f: &mut Formatter<'_>, text: &[u8]) -> fmt::Result {
    let shown = text.get(..TEXT_SHOWN_MAX).unwrap_or(text);
    write!(f, " \"{}\"", shown.escape_ascii())?;
    match text.len() - shown.len() {
        0 => Ok(()),
        more => write!(f, " and {more} bytes"),
    }
}

fn show_list<T>(
    f: &mut Formatter<'_>,
    title: &str,
    items: impl ExactSizeIterator<Item = T>,
    show: impl Fn(&mut Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    let more = items.len().saturating_sub(SHOWN_MAX);
    if items.len() > 0 {
        f.write_str(title)?;
    }
    for item in items.take(SHOWN_MAX) {
        show(f, item)?;
    }
    if more > 0 { write!(f, " and {more}") } else { Ok(()) }
}

/// Writes parameters or causes, which may turn out to be malformed, in brackets, of which `opening` is
/// the first. Writes nothing if there are none.
fn show_bracketed<T, E: Display>(
    f: &mut Formatter<'_>,
    mut items: impl Iterator<Item = Result<T, E>>,
    show: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
    opening: &'static str,
) -> fmt::Result {
    let mut before = opening;
    for item in items.by_ref().take(SHOWN_MAX) {
        f.write_str(before)?;
        before = ", ";
        match item {
            Ok(item) => show(f, &item)?,
            Err(error) => write!(f, "malformed: {error}")?,
        }
    }
    match items.count() {
        0 if before == opening => Ok(()),
        0 => f.write_char(']'),
        more => write!(f, " and {more}]"),
    }
}

#[cfg(test)]
mod tests;
