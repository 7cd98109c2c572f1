//! Messages whose content can be checked. Message number k has PPID k + 1, and byte i of it is (k * 31 + i *
//! 7) mod 256. The peers of other stacks create and check the same content.

use std::collections::BTreeMap;

use bytes::Bytes;
use strandline_proto::event::{Message, SendInfo};
use strandline_wire::number::{Ppid, StreamId};

/// A message of a test's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Its number, from which its content and PPID are derived.
    pub number: u32,
    /// Stream identifier.
    pub stream: u16,
    /// Length in bytes.
    pub length: usize,
    /// Whether the message is sent unordered.
    pub unordered: bool,
}

/// Returns `count` ordered messages of one length, spread over `streams`.
#[must_use]
pub fn plan(count: u32, length: usize, streams: u16) -> Vec<Planned> {
    let one = |number: u32| Planned {
        number,
        stream: u16::try_from(number % u32::from(streams)).unwrap_or_default(),
        length,
        unordered: false,
    };
    (0..count).map(one).collect()
}

/// Messages without order.
#[must_use]
pub fn unordered(count: u32, length: usize, streams: u16) -> Vec<Planned> {
    plan(count, length, streams).into_iter().map(Planned::unordered).collect()
}

impl Planned {
    /// The message without order.
    #[must_use]
    pub fn unordered(self) -> Self {
        Self { unordered: true, ..self }
    }

    /// Returns the send parameters for the engine.
    #[must_use]
    pub fn info(&self) -> SendInfo {
        let mut info = SendInfo::on(StreamId(self.stream)).ppid(Ppid(self.number + 1));
        info.unordered = self.unordered;
        info
    }

    /// Returns the content.
    #[must_use]
    pub fn data(&self) -> Bytes {
        content(self.number, self.length)
    }

    /// Asserts that a received message is this one, whole.
    pub fn assert_is(&self, message: &Message) {
        assert!(message.begins && message.ends, "message {} came in parts", self.number);
        assert_eq!(message.ppid, Ppid(self.number + 1), "PPID");
        assert_eq!(message.stream, StreamId(self.stream), "stream of message {}", self.number);
        assert_eq!(message.data.len(), self.length, "length of message {}", self.number);
        assert!(message.data == self.data(), "content of message {}", self.number);
    }
}

/// Returns the content of message `number`.
#[must_use]
pub fn content(number: u32, length: usize) -> Bytes {
    let byte = |at: usize| (u64::from(number) * 31 + at as u64 * 7) as u8;
    (0..length).map(byte).collect::<Vec<u8>>().into()
}

/// The outstanding messages of a plan: each is expected exactly once, the ordered ones of a stream in the
/// plan's order.
#[derive(Debug)]
pub struct Expected {
    left: Vec<Planned>,
}

impl Expected {
    /// Expects all messages of a plan.
    #[must_use]
    pub fn new(plan: &[Planned]) -> Self {
        Self { left: plan.to_vec() }
    }

    /// Checks off a received message.
    pub fn take(&mut self, message: &Message) {
        let at = self
            .left
            .iter()
            .position(|planned| Ppid(planned.number + 1) == message.ppid)
            .unwrap_or_else(|| panic!("{:?} was not sent, or came twice", message.ppid));
        let planned = self.left.remove(at);
        planned.assert_is(message);
        let overtaken =
            self.left[..at].iter().find(|other| other.stream == planned.stream && !other.unordered);
        if let Some(earlier) = overtaken.filter(|_| !planned.unordered) {
            panic!("message {} came before message {} of its stream", planned.number, earlier.number);
        }
    }

    /// Returns whether everything has arrived.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the number of messages that have not arrived.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left.len()
    }
}

/// Checks the PPIDs of messages that were received, and of those that were reported as failed, if they are.
///
/// # Panics
/// If everything arrived, or nothing; if one is neither; or if messages of a stream changed their order.
pub fn check_limits(plan: &[Planned], received: &[u32], failed: Option<&[u32]>) {
    let missing: Vec<u32> = (1..=plan.len() as u32).filter(|ppid| !received.contains(ppid)).collect();
    assert!(!missing.is_empty() && missing.len() < plan.len(), "{} missing", missing.len());
    let is_unknown = |ppid: &&u32| failed.is_some_and(|failed| !failed.contains(ppid));
    let unknown: Vec<_> = missing.iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "neither arrived nor reported: {unknown:?}");
    let mut last = BTreeMap::new();
    for planned in received.iter().filter_map(|ppid| plan.get(*ppid as usize - 1)) {
        let before = last.insert(planned.stream, planned.number);
        assert!(before.is_none_or(|before| before < planned.number), "{before:?} before {planned:?}");
    }
}

/// Takes the message out whose last part is the latest one: its parts are those of its stream and order.
/// Others may have come in between.
pub fn take_whole(parts: &mut Vec<Message>) -> Option<Message> {
    let last = parts.last().filter(|last| last.ends)?;
    let key = (last.stream, last.unordered);
    let own = parts.extract_if(.., |part| (part.stream, part.unordered) == key);
    let joined = own.reduce(|mut first, part| {
        first.data = [first.data, part.data].concat().into();
        first.ends = part.ends;
        first
    });
    joined.filter(|whole| whole.begins)
}
