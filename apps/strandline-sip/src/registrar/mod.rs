//! The registrar (RFC 3261 section 10.3, RFC 3327, RFC 5626 section 6, RFC 5627 section 5). No I/O, no clock.
//!
//! It needs no transactions, because REGISTER is idempotent. A retransmission matches the Call-ID and CSeq of
//! the binding and gets the same response again.

mod contact;
mod gruu;
mod respond;
mod room;
mod settings;

use crate::bindings::{Binding, Journal, Locations};
use crate::codec::{Contacts, Essentials, HeaderName, Message, SipUri, StatusCode};
use crate::transaction::Flow;

use contact::{Wanted, WantedAll};
pub use gruu::Gruus;
pub use respond::{FLOW_TIMER_SECS, has_flow_timer, write_error, write_ok};
pub use settings::RegistrarSettings;

/// The outcome of a REGISTER request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The bindings have changed. 200 is sent once the change is durable.
    Changed,
    /// The bindings have not changed: 200.
    Same,
    /// The request is rejected.
    Refused(Refusal),
}

/// Why a REGISTER request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// With this status code and reason.
    Status(StatusCode, &'static str),
    /// 423, with the shortest time that is granted, in seconds.
    TooBrief(u32),
    /// 420, with the missing extension.
    Unsupported(&'static str),
}

impl Refusal {
    /// The status code of the response.
    #[must_use]
    pub const fn code(self) -> StatusCode {
        match self {
            Self::Status(code, _) => code,
            Self::TooBrief(_) => StatusCode::INTERVAL_TOO_BRIEF,
            Self::Unsupported(_) => StatusCode::BAD_EXTENSION,
        }
    }
}

const BAD_STAR: Refusal = Refusal::Status(StatusCode::BAD_REQUEST, "Contact * Requires Expires: 0");
const OLD: Refusal = Refusal::Status(StatusCode::SERVER_INTERNAL_ERROR, "CSeq Out Of Order");
const BAD_CONTACT: Refusal = Refusal::Status(StatusCode::BAD_REQUEST, "Malformed Contact");
const LACKS_OUTBOUND: Refusal =
    Refusal::Status(StatusCode::FIRST_HOP_LACKS_OUTBOUND_SUPPORT, "First Hop Lacks Outbound Support");
const TOO_LONG: Refusal = Refusal::Status(StatusCode::BAD_REQUEST, "Contact, Path And Call-ID Too Long");
const NOT_ALONE: Refusal = Refusal::Status(StatusCode::BAD_REQUEST, "reg-id Allows Only One Contact");
const TOO_MANY: Refusal = Refusal::Status(StatusCode::FORBIDDEN, "Too Many Contacts");
const LOOP: Refusal = Refusal::Status(StatusCode::FORBIDDEN, "Contact Leads Back Here");
const NOT_SIP: Refusal = Refusal::Status(StatusCode::FORBIDDEN, "An Instance Needs a SIP URI");
const FULL: Refusal = Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, "Too Many Users");

/// The registrar.
#[derive(Debug)]
pub struct Registrar {
    settings: RegistrarSettings,
}

/// A REGISTER request and its context.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The message.
    pub message: Message<'a>,
    /// Its essentials.
    pub essentials: &'a Essentials<'a>,
    /// The parsed URI of To.
    pub to: &'a SipUri<'a>,
    /// The flow over which the request came.
    pub flow: Flow,
    /// The time, in seconds since 1970-01-01.
    pub unix_secs: u64,
    /// Milliseconds since 1970-01-01, which order changes of several nodes.
    pub unix_ms: u64,
    /// The generator of GRUUs (RFC 5627); `None` disables them.
    pub gruus: Option<&'a Gruus>,
    /// Returns whether the connection of a binding still exists, here or at another worker or node.
    pub is_connected: &'a dyn Fn(&Binding) -> bool,
    /// The value of Service-Route in a 200 response (RFC 3608); empty for none.
    pub service_route: &'a [u8],
}

impl Request<'_> {
    /// The generator of GRUUs, if the phone supports them.
    fn gruus(&self) -> Option<&Gruus> {
        self.gruus.filter(|_| supports(&self.message, b"gruu"))
    }
}

impl Registrar {
    /// Creates a registrar.
    #[must_use]
    pub const fn new(settings: RegistrarSettings) -> Self {
        Self { settings }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &RegistrarSettings {
        &self.settings
    }

    /// Applies a REGISTER request for `aor`, either completely or not at all (section 10.3, step 7).
    pub fn register(
        &self,
        request: &Request<'_>,
        aor: &[u8],
        locations: &mut Locations,
        journal: &mut Journal,
    ) -> Registered {
        let contacts = match request.message.contacts() {
            Ok(contacts) => contacts,
            Err(_) => return Registered::Refused(BAD_STAR),
        };
        let header = request.message.expires();
        let result = match contacts {
            Contacts::All => {
                let zero = matches!(header, Ok(Some(expires)) if expires.0 == 0);
                if zero { remove_all(request, aor, locations, journal) } else { Err(BAD_STAR) }
            }
            Contacts::Some(values) => {
                let default = match header {
                    Ok(Some(expires)) => expires.0,
                    // A malformed value counts as the default (section 20.19).
                    Ok(None) | Err(_) => self.settings.expires_default_secs,
                };
                let mut wanted = WantedAll::default();
                let is_loop = |wanted: &Wanted<'_>| wanted.leads_back(request, aor, locations);
                match wanted.read(values, default, request, &self.settings) {
                    Ok(()) if wanted.iter().any(is_loop) => Err(LOOP),
                    Ok(()) => self.bind(request, aor, &wanted, locations, journal),
                    Err(refusal) => Err(refusal),
                }
            }
        };
        match result {
            Ok(true) => Registered::Changed,
            Ok(false) => Registered::Same,
            Err(refusal) => Registered::Refused(refusal),
        }
    }

    fn bind(
        &self,
        request: &Request<'_>,
        aor: &[u8],
        wanted: &WantedAll<'_>,
        locations: &mut Locations,
        journal: &mut Journal,
    ) -> Result<bool, Refusal> {
        let bindings = locations.bindings(aor);
        let (call_id, cseq) = (request.essentials.call_id, request.essentials.cseq.number);
        let (mut added, mut same) = (0, true);
        let is_live = |binding: &&Binding| !binding.has_expired(request.unix_secs);
        for wanted in wanted.iter() {
            match bindings.iter().filter(is_live).find(|binding| wanted.is_for(binding)) {
                Some(binding) if *binding.call_id == *call_id && cseq < binding.cseq => return Err(OLD),
                // A retransmission, unless it comes to another node.
                Some(binding)
                    if *binding.call_id == *call_id && cseq == binding.cseq && binding.origin.is_none() => {}
                Some(_) => same = false,
                None => {
                    added += usize::from(wanted.expires > 0);
                    same &= wanted.expires == 0;
                }
            }
        }
        if same {
            return Ok(false);
        }
        let live = bindings.iter().filter(is_live).count();
        let mut leaving = Vec::new();
        if live + added > self.settings.contacts_max {
            // The request itself may remove other bindings.
            let mut after: Vec<Binding> = bindings.iter().filter(is_live).cloned().collect();
            wanted.iter().for_each(|wanted| wanted.apply(&mut after, request));
            let excess = after.len().saturating_sub(self.settings.contacts_max);
            let live: Vec<&Binding> = bindings.iter().filter(is_live).collect();
            leaving = room::leaving(&live, wanted, request, self.settings.replace_oldest, excess)
                .ok_or(TOO_MANY)?;
        }
        let changed = locations.change(aor, request.unix_ms, journal, |bindings| {
            bindings.retain(|binding| !binding.has_expired(request.unix_secs));
            let mut place = 0;
            bindings.retain(|_| {
                place += 1;
                !leaving.contains(&(place - 1))
            });
            for wanted in wanted.iter() {
                wanted.apply(bindings, request);
            }
        });
        changed.map(|()| true).ok_or(FULL)
    }
}

fn remove_all(
    request: &Request<'_>,
    aor: &[u8],
    locations: &mut Locations,
    journal: &mut Journal,
) -> Result<bool, Refusal> {
    let (call_id, cseq) = (request.essentials.call_id, request.essentials.cseq.number);
    let old = |binding: &Binding| {
        !binding.has_expired(request.unix_secs) && *binding.call_id == *call_id && cseq < binding.cseq
    };
    let bindings = locations.bindings(aor);
    if bindings.iter().any(old) {
        return Err(OLD);
    }
    if bindings.is_empty() {
        return Ok(false);
    }
    locations.change(aor, request.unix_ms, journal, Vec::clear).map(|()| true).ok_or(FULL)
}

/// Returns true if the sender supports this extension.
pub(crate) fn supports(message: &Message<'_>, option: &[u8]) -> bool {
    let says = |name| {
        message.has(name)
            && message.values(name).flatten().any(|token: crate::codec::Token<'_>| token.is(option))
    };
    says(HeaderName::Supported) || says(HeaderName::Require)
}
