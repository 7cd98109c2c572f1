//! Overload feedback to upstream neighbours (RFC 7339, RFC 7415): how much less to send, in the Via of
//! responses to those that ask with `oc`. No I/O, no clock.

use core::net::IpAddr;
use std::fmt::Write as _;

use bytes::BytesMut;

use crate::codec::{Index, Message, Via, via_param_places};
use crate::transaction::Time;

/// Maximum number of neighbours; others get no feedback.
const NEIGHBOURS: usize = 64;
/// Time without requests after which a neighbour's entry may be reused, in milliseconds.
const GONE_MS: u64 = 60_000;
/// If the table is full, an entry with fewer requests is replaced by a new neighbour: entries for spoofed UDP
/// addresses must not keep out real neighbours.
const FEW: u64 = 16;
/// Time without requests after which a neighbour is removed, in seconds. While there are neighbours, every
/// response is parsed again.
const SILENT_SECS: f64 = 300.0;
/// How long a neighbour keeps its algorithm, in milliseconds (RFC 7339 section 5.8).
const CHOSEN_MS: u64 = 3_600_000;
/// `oc-validity` in milliseconds: longer than the time between two updates.
const VALIDITY_MS: u32 = 2000;
/// The requested share of the handled requests: below 1, so that the queue gets shorter.
const BACK_OFF: f64 = 0.9;
/// The factor by which the allowed share grows with each update after overload.
const GROWTH: f64 = 1.1;

/// The load since the last update.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Seconds since the last update.
    pub secs: f64,
    /// Handled requests outside of dialogs.
    pub handled: u64,
    /// Refused requests outside of dialogs.
    pub refused: u64,
}

/// An upstream neighbour that asks how much it may send.
#[derive(Debug)]
struct Neighbour {
    address: IpAddr,
    /// Whether it uses the rate algorithm (RFC 7415).
    rate: bool,
    /// When its algorithm was chosen.
    chosen: Time,
    /// Requests since the last update.
    came: u64,
    /// Requests in a second that it may send under overload.
    allowed: f64,
    seen: Time,
    /// Seconds without a request.
    silent: f64,
    /// Requests in all.
    requests: u64,
}

impl Neighbour {
    /// Whether no algorithm was chosen yet.
    fn is_new(&self) -> bool {
        self.requests <= 1
    }
}

/// Whether this is a parameter of Via for overload control (RFC 7339 section 4).
pub(super) fn is_oc(name: &[u8]) -> bool {
    [&b"oc"[..], b"oc-algo", b"oc-validity", b"oc-seq"].iter().any(|oc| oc.eq_ignore_ascii_case(name))
}

/// Overload feedback: upstream neighbours, and the share of their requests that they may send.
#[derive(Debug)]
pub(super) struct Feedback {
    neighbours: Vec<Neighbour>,
    /// 1 without overload.
    share: f64,
    /// `oc-seq`: it grows with each update, from the time of the start on.
    seq: u64,
}

impl Feedback {
    pub(super) fn new(epoch_unix_secs: u64) -> Self {
        Self { neighbours: Vec::new(), share: 1.0, seq: epoch_unix_secs }
    }

    /// Whether no neighbour asks for feedback.
    pub(super) fn is_empty(&self) -> bool {
        self.neighbours.is_empty()
    }

    /// The share of their requests that neighbours may send.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// Records a request whose Via has `oc`.
    pub(super) fn on_request(&mut self, now: Time, address: IpAddr, via: &Via<'_>) {
        let place = self.neighbours.iter().position(|neighbour| neighbour.address == address);
        let place = place.or_else(|| self.place(now, address));
        if let Some(neighbour) = place.and_then(|place| self.neighbours.get_mut(place)) {
            neighbour.came += 1;
            neighbour.requests += 1;
            neighbour.seen = now;
            let algorithms = via.params.value(b"oc-algo").unwrap_or(&[]);
            let rate = algorithms
                .split(|byte| matches!(byte, b',' | b'"' | b' '))
                .any(|name| name.eq_ignore_ascii_case(b"rate"));
            // A neighbour that no longer offers `rate` gets `loss` at once, which all neighbours support.
            let old = now.as_millis() > neighbour.chosen.as_millis() + CHOSEN_MS;
            if neighbour.rate != rate && (!rate || old || neighbour.is_new()) {
                (neighbour.rate, neighbour.chosen) = (rate, now);
            }
        }
    }

    fn place(&mut self, now: Time, address: IpAddr) -> Option<usize> {
        let new = Neighbour {
            address,
            rate: false,
            chosen: now,
            came: 0,
            allowed: 0.0,
            seen: now,
            silent: 0.0,
            requests: 0,
        };
        if self.neighbours.len() < NEIGHBOURS {
            self.neighbours.push(new);
            return Some(self.neighbours.len() - 1);
        }
        let gone = |neighbour: &Neighbour| now.as_millis() > neighbour.seen.as_millis() + GONE_MS;
        let few = || {
            let places = self.neighbours.iter().enumerate().filter(|(_, neighbour)| neighbour.requests < FEW);
            places.min_by_key(|(_, neighbour)| neighbour.requests).map(|(place, _)| place)
        };
        let place = self.neighbours.iter().position(gone).or_else(few)?;
        *self.neighbours.get_mut(place)? = new;
        Some(place)
    }

    /// Updates the feedback for upstream neighbours from the load since the last call.
    pub(super) fn on_load(&mut self, load: &Load) {
        self.seq += 1;
        let overloaded = load.refused > 0;
        let done = load.handled as f64 / (load.handled + load.refused).max(1) as f64;
        self.share = if overloaded {
            (self.share * done * BACK_OFF).max(0.01)
        } else {
            (self.share * GROWTH + 0.01).min(1.0)
        };
        for neighbour in &mut self.neighbours {
            let rate = neighbour.came as f64 / load.secs.max(0.001);
            neighbour.allowed = if overloaded {
                (rate * done * BACK_OFF).max(1.0)
            } else {
                (neighbour.allowed * GROWTH).max(rate) + 1.0
            };
            neighbour.silent = if neighbour.came == 0 { neighbour.silent + load.secs } else { 0.0 };
            neighbour.came = 0;
        }
        self.neighbours.retain(|neighbour| neighbour.silent < SILENT_SECS);
    }

    /// The feedback for a neighbour, as parameters of Via.
    fn value(&self, address: IpAddr) -> Option<String> {
        let neighbour = self.neighbours.iter().find(|neighbour| neighbour.address == address)?;
        let algorithm = if neighbour.rate { "rate" } else { "loss" };
        let (oc, validity) = match (self.share < 1.0, neighbour.rate) {
            (false, _) => (0, 0),
            (true, true) => (neighbour.allowed as u32, VALIDITY_MS),
            (true, false) => (((1.0 - self.share) * 100.0).round() as u32, VALIDITY_MS),
        };
        let seq = self.seq;
        Some(format!(";oc={oc};oc-algo=\"{algorithm}\";oc-validity={validity};oc-seq={seq}.0"))
    }

    /// Writes feedback into the topmost Via of a response, which begins at `start` in `out`, if that Via asks
    /// for it, and removes the feedback of other servers from it. `asked` if the Via of the request had `oc`:
    /// it was removed when the request was forwarded.
    pub(super) fn note(&self, address: IpAddr, asked: bool, out: &mut BytesMut, start: usize) {
        let value = self.value(address);
        let whole = out.split_off(start);
        let mut index = Index::new();
        let mut places: Vec<(usize, usize)> = Vec::new();
        if let Ok(message) = Message::parse(&whole, &mut index) {
            places.extend(via_param_places(&message, is_oc));
            if places.is_empty() && asked && value.is_some() {
                let branch = via_param_places(&message, |name| name.eq_ignore_ascii_case(b"branch"));
                places.extend(branch.map(|(_, end)| (end, end)).take(1));
            }
        }
        // Only this server may give these clients feedback: an existing value comes from another server.
        let is_told = |(from, to): &(usize, usize)| {
            let text = whole.get(*from..*to).unwrap_or(&[]);
            let bare = text.iter().filter(|byte| !byte.is_ascii_whitespace());
            bare.take(4).map(u8::to_ascii_lowercase).eq(*b";oc=")
        };
        if value.is_none() && !places.iter().any(is_told) {
            return out.unsplit(whole);
        }
        let value = value.unwrap_or_default();
        let mut at = 0;
        for (number, (from, to)) in places.iter().enumerate() {
            out.extend_from_slice(whole.get(at..*from).unwrap_or(&[]));
            if number == 0 {
                let _ = out.write_str(&value);
            }
            at = *to;
        }
        out.extend_from_slice(whole.get(at..).unwrap_or(&[]));
    }
}

#[cfg(test)]
mod tests;
