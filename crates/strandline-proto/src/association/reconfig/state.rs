//! The state of reconfiguration, without the association.

use core::time::Duration;

use strandline_wire::parameter::re_config::{NextTsns, Response, ResultCode};

use super::waiting::Closing;
use crate::number::{RequestNumber, Tsn};
use crate::reconfiguration::{StreamDirection, Streams};
use crate::time::Time;

/// Number of the peer's latest requests whose verdicts are kept: a chunk has at most two.
const VERDICTS_MAX: usize = 2;

/// Maximum number of responses that are owed at a time.
const OWED_MAX: usize = 4;

/// Maximum number of doublings of the timer while the peer answers that the request is in progress.
const DOUBLINGS_MAX: u16 = 6;

/// The state of reconfiguration. Allocated at first use.
#[derive(Debug)]
pub(in super::super) struct Reconfig {
    /// Number of our next request.
    pub(super) next: RequestNumber,
    /// Number of the peer's next request.
    pub(super) expected: RequestNumber,
    pub(super) active: Option<Active>,
    /// The peer's request that begins once nothing is active.
    pub(super) queued: Option<QueuedRequest>,
    /// Number of outgoing streams that the peer has asked for, and that we ask for once nothing is active.
    pub(super) queued_streams: u16,
    /// The peer's reset of its outgoing streams that waits for missing data.
    pub(super) deferred: Option<Deferred>,
    /// Verdicts on the peer's latest requests.
    verdicts: Vec<(RequestNumber, Verdict)>,
    /// Numbers of the peer's requests to respond to.
    pub(super) owed: Vec<RequestNumber>,
    /// Our latest Incoming SSN Reset Request, and its streams: the peer may perform it, whatever the
    /// configuration says.
    pub(super) consented: Option<(RequestNumber, Streams)>,
    /// Number of incoming streams that we asked for and that the peer has not added yet.
    pub(super) wanted_streams: u16,
    /// True once all numbers began anew.
    pub(super) renumbered: bool,
    /// When our latest SSN/TSN Reset Request was sent.
    pub(super) renumbered_at: Option<Time>,
    /// Dynamic streams that wait for a request.
    pub(super) closing: Closing,
}

/// What is under way.
#[derive(Debug)]
pub(super) enum Active {
    /// A request of ours.
    Own(Own),
    /// The peer's SSN/TSN Reset Request, until all our data is acknowledged, and our first TSN after the reset.
    Drain(RequestNumber, Tsn),
}

/// A request of the peer that we can only perform by a request of ours, or once our data is acknowledged.
#[derive(Debug)]
pub(super) enum QueuedRequest {
    /// Reset outgoing streams.
    Reset(Performs, Streams),
    /// Reset all numbers. It has our first TSN after the reset.
    Renumber(RequestNumber, Tsn),
}

/// An Incoming SSN Reset Request of the peer, which a request of ours answers.
#[derive(Debug, Clone)]
pub(super) struct Performs {
    pub(super) number: RequestNumber,
    /// The list of streams as the peer sent it, two bytes for each: it is copied (section 5.1.2 step A4).
    pub(super) list: Vec<u8>,
}

/// See [`Reconfig::deferred`].
#[derive(Debug)]
pub(super) struct Deferred {
    pub(super) number: RequestNumber,
    pub(super) streams: Streams,
    /// The peer's last TSN before the reset.
    pub(super) last: Tsn,
    /// The streams of our request that it answers, if it does.
    pub(super) answers: Option<Streams>,
    /// When it is refused because the data is still missing.
    pub(super) until: Time,
}

/// What became of a request of the peer.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// It is in progress.
    Pending,
    /// This is the response.
    Is(Response),
    /// Our own request, with these parameters, is the response.
    Request(Vec<u8>),
}

/// What is owed to the peer for its requests.
#[derive(Debug, Default)]
pub(super) struct Owed {
    pub(super) responses: Vec<Response>,
    /// Requests of ours that are sent again.
    pub(super) repeated: Vec<Vec<u8>>,
}

/// What a request of ours asks for.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Reset(StreamDirection, Streams),
    Renumber,
    Add { outgoing: u16, incoming: u16 },
}

/// A request of ours.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) work: Work,
    /// The peer's request that it performs.
    pub(super) performs: Option<Performs>,
    /// Why it was begun.
    pub(super) origin: Origin,
    pub(super) stage: Stage,
}

/// Why a request of ours was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The application asked for it.
    Application,
    /// The peer asked for it.
    Peer,
    /// Dynamic streams are closed or stopped.
    Closing,
}

/// How far a request of ours has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Data must be acknowledged before: up to this TSN, once all of it was sent.
    Waiting(Option<Tsn>),
    Sent(Sent),
}

/// A request that was sent, or is about to be.
#[derive(Debug)]
pub(super) struct Sent {
    /// The parameters.
    pub(super) bytes: Vec<u8>,
    /// True if it must be sent now.
    due: bool,
    /// The parts that are not answered yet.
    pub(super) parts: Vec<(RequestNumber, Part)>,
    /// Number of expiries of the timer since the latest response.
    pub(super) unanswered: u16,
    /// Number of responses that said that it is in progress.
    pub(super) in_progress: u16,
    /// Number of expiries of the timer while nothing else kept a shutdown of the peer waiting.
    pub(super) delays: u16,
}

/// One parameter of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    ResetOutgoing,
    ResetIncoming,
    Renumber,
    AddOutgoing,
    AddIncoming,
}

/// A request that must be sent now.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) bytes: Vec<u8>,
    /// True if it may share a chunk with a response.
    pub(super) goes_with_response: bool,
}

impl Sent {
    pub(super) fn new(bytes: Vec<u8>, parts: Vec<(RequestNumber, Part)>) -> Self {
        Self { bytes, due: true, parts, unanswered: 0, in_progress: 0, delays: 0 }
    }

    /// Lets it be sent again.
    pub(super) fn repeat(&mut self) {
        self.due = true;
    }

    /// Returns true if a part depends on a request that the peer must send.
    pub(super) fn needs_peer(&self) -> bool {
        self.parts.iter().any(|(_, part)| matches!(part, Part::ResetIncoming | Part::Renumber))
    }

    pub(super) fn has(&self, wanted: Part) -> bool {
        self.parts.iter().any(|(_, part)| *part == wanted)
    }
}

impl Own {
    /// Returns the time until it is sent again. The RTO is doubled by unanswered requests already; here it is also
    /// doubled while the peer answers that the request is in progress (section 5.2.7 step H2).
    pub(super) fn waits(&self, rto: Duration) -> Duration {
        match &self.stage {
            Stage::Waiting(_) => rto,
            Stage::Sent(sent) => rto * (1 << sent.in_progress.saturating_sub(1).min(DOUBLINGS_MAX)),
        }
    }
}

impl Reconfig {
    /// Creates the state of an association whose sides had these initial TSNs: requests are numbered from there
    /// (section 4.1).
    pub(super) fn new(own: Tsn, peers: Tsn) -> Self {
        Self {
            next: RequestNumber(own.0),
            expected: RequestNumber(peers.0),
            active: None,
            queued: None,
            queued_streams: 0,
            deferred: None,
            verdicts: Vec::new(),
            owed: Vec::new(),
            consented: None,
            wanted_streams: 0,
            renumbered: false,
            renumbered_at: None,
            closing: Closing::default(),
        }
    }

    /// Numbers the peer's requests from its initial TSN, which this state was created without.
    pub(super) fn expect_from(&mut self, peers: Tsn) {
        self.expected = RequestNumber(peers.0);
    }

    /// Returns the number of a new request.
    pub(super) fn take_number(&mut self) -> RequestNumber {
        let number = self.next;
        self.next = number.next();
        number
    }

    /// Returns the number of outgoing streams of a request of ours to which the peer has not answered yet.
    pub(super) fn streams_asked_for(&self) -> u16 {
        let Some(Active::Own(Own { work: Work::Add { outgoing, .. }, stage, .. })) = &self.active else {
            return 0;
        };
        match stage {
            Stage::Sent(sent) if !sent.has(Part::AddOutgoing) => 0,
            _ => *outgoing,
        }
    }

    /// Returns our request, if it was sent.
    pub(super) fn sent(&self) -> Option<&Sent> {
        match &self.active {
            Some(Active::Own(Own { stage: Stage::Sent(sent), .. })) => Some(sent),
            _ => None,
        }
    }

    /// Returns our request, if it was sent.
    pub(super) fn sent_mut(&mut self) -> Option<&mut Sent> {
        match &mut self.active {
            Some(Active::Own(Own { stage: Stage::Sent(sent), .. })) => Some(sent),
            _ => None,
        }
    }

    /// Returns our request if it must be sent now, which it is by that.
    pub(super) fn take_due(&mut self) -> Option<Due> {
        let sent = self.sent_mut()?;
        if !core::mem::take(&mut sent.due) {
            return None;
        }
        let goes_with_response = matches!(sent.parts[..], [(_, Part::ResetOutgoing)]);
        Some(Due { bytes: sent.bytes.clone(), goes_with_response })
    }

    /// Returns the verdict on a request of the peer, unless it is too old or was never received.
    pub(super) fn verdict(&self, number: RequestNumber) -> Option<Verdict> {
        let known = self.verdicts.iter().find(|(known, _)| *known == number);
        known.map(|(_, verdict)| verdict.clone())
    }

    /// Records a verdict.
    pub(super) fn set_verdict(&mut self, number: RequestNumber, verdict: Verdict) {
        if let Some((_, known)) = self.verdicts.iter_mut().find(|(known, _)| *known == number) {
            *known = verdict;
            return;
        }
        if self.verdicts.len() >= VERDICTS_MAX {
            self.verdicts.remove(0);
        }
        self.verdicts.push((number, verdict));
    }

    /// Refuses the peer's requests that wait for something of ours, or that a request of ours would have
    /// performed: with `sent` even one that was sent.
    pub(super) fn deny_pending(&mut self, sent: bool) {
        self.queued_streams = 0;
        self.deny_queued(ResultCode::DENIED);
        let active = match &self.active {
            Some(Active::Drain(number, _)) => Some(*number),
            Some(Active::Own(Own { performs, stage, .. })) => {
                let performs = performs.as_ref().filter(|_| sent || matches!(stage, Stage::Waiting(_)));
                performs.map(|performs| performs.number)
            }
            None => None,
        };
        if let Some(number) = active {
            self.refuse(number, ResultCode::DENIED);
        }
    }

    /// Refuses the peer's request that waits until nothing is active.
    pub(super) fn deny_queued(&mut self, result: ResultCode) {
        let (QueuedRequest::Reset(Performs { number, .. }, _) | QueuedRequest::Renumber(number, _)) =
            match self.queued.take() {
                Some(request) => request,
                None => return,
            };
        self.refuse(number, result);
    }

    fn refuse(&mut self, number: RequestNumber, result: ResultCode) {
        self.set_verdict(number, Verdict::Is(Response::new(number, result)));
        self.owe(number);
    }

    /// Returns the Re-configuration Response Sequence Number of an Outgoing SSN Reset Request that answers nothing
    /// (section 5.1.2 step A4): the peer's latest request. If a reset of our streams that the peer has asked for is
    /// still to follow, its number would answer that: then the one before.
    pub(super) fn answers_nothing(&self) -> RequestNumber {
        match &self.queued {
            Some(QueuedRequest::Reset(performs, _)) => performs.number.previous(),
            _ => self.expected.previous(),
        }
    }

    /// Records that a response is owed.
    pub(super) fn owe(&mut self, number: RequestNumber) {
        if self.owed.len() < OWED_MAX && !self.owed.contains(&number) {
            self.owed.push(number);
        }
    }

    /// Returns a response that says that a request is in progress. For a reset of all numbers it has the
    /// first TSN after the reset: what the peer receives before that has the old numbers.
    fn in_progress(&self, number: RequestNumber, receiver: Tsn) -> Response {
        let sender = match (&self.active, &self.queued) {
            (Some(Active::Drain(drained, sender)), _) if *drained == number => Some(*sender),
            (_, Some(QueuedRequest::Renumber(waiting, sender))) if *waiting == number => Some(*sender),
            _ => None,
        };
        let next_tsns = sender.map(|sender| NextTsns { sender, receiver });
        Response { next_tsns, ..Response::new(number, ResultCode::IN_PROGRESS) }
    }

    /// Takes what is owed to the peer. `receiver` is the peer's first TSN if all numbers were reset now.
    pub(super) fn take_owed(&mut self, receiver: Tsn) -> Owed {
        let mut owed = Owed::default();
        for number in core::mem::take(&mut self.owed) {
            match self.verdict(number) {
                None => owed.responses.push(Response::new(number, ResultCode::BAD_SEQUENCE_NUMBER)),
                Some(Verdict::Pending) => owed.responses.push(self.in_progress(number, receiver)),
                Some(Verdict::Is(response)) => owed.responses.push(response),
                Some(Verdict::Request(bytes)) => owed.repeated.push(bytes),
            }
        }
        owed
    }

    /// Returns the heap bytes, itself included.
    pub(in super::super) fn heap_bytes(&self) -> usize {
        let verdicts = self.verdicts.capacity() * size_of::<(RequestNumber, Verdict)>();
        let listed = |streams: &Streams| size_of_val(streams.list());
        let own = match &self.active {
            Some(Active::Own(Own { work: Work::Reset(_, streams), performs, .. })) => {
                listed(streams) + performs.as_ref().map_or(0, |performs| performs.list.len())
            }
            _ => 0,
        };
        let queued = match &self.queued {
            Some(QueuedRequest::Reset(performs, streams)) => listed(streams) + performs.list.len(),
            _ => 0,
        };
        let consented = self.consented.as_ref().map_or(0, |(_, streams)| listed(streams));
        let deferred = self
            .deferred
            .as_ref()
            .map_or(0, |deferred| listed(&deferred.streams) + deferred.answers.as_ref().map_or(0, listed));
        let sent = self.sent().map_or(0, |sent| sent.bytes.capacity());
        let owed = self.owed.capacity() * size_of::<RequestNumber>();
        size_of::<Self>()
            + verdicts
            + owed
            + own
            + queued
            + consented
            + deferred
            + sent
            + self.closing.heap_bytes()
    }

    pub(super) fn is_renumbering(&self) -> bool {
        self.renumbered || self.sent().is_some_and(|sent| sent.has(Part::Renumber))
    }
}
