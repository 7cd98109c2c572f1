//! Streams that are opened and closed at run time, with a peer that has no notion of them: like data channels of WebRTC
//! (RFC 8831 section 6.7), a stream ends once each side has reset its outgoing direction.

use std::collections::BTreeSet;

use strandline_proto::endpoint::{DynamicStreams, Endpoint};
use strandline_proto::event::{AssociationId, Event};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{DynamicStreamsEvent, Outcome};
use strandline_proto::time::Time;

/// Streams that are used at the same time.
#[derive(Debug)]
pub struct Opened {
    /// The streams, in ascending order.
    pub streams: Vec<u16>,
    ended: BTreeSet<u16>,
    closed: BTreeSet<u16>,
}

impl Opened {
    /// Returns so many even or odd streams from 2 on. Makes the streams from 1 on dynamic.
    ///
    /// # Panics
    /// If the association has ended.
    #[must_use]
    pub fn new(endpoint: &mut Endpoint, id: AssociationId, even: bool, count: u16) -> Self {
        DynamicStreams::of(endpoint, id).begin(StreamId(1)).expect("the association lives");
        let streams = (1..=count).map(|number| number * 2 + u16::from(!even)).collect();
        Self { streams, ended: BTreeSet::new(), closed: BTreeSet::new() }
    }

    /// Closes this side's direction of all streams.
    pub fn close(&self, endpoint: &mut Endpoint, id: AssociationId, now: Time) {
        for stream in &self.streams {
            DynamicStreams::of(endpoint, id).close(now, StreamId(*stream));
        }
    }

    /// Notes an event of the association.
    ///
    /// # Panics
    /// If it refuses to close a stream, or concerns others.
    pub fn note(&mut self, event: &Event) {
        let Event::DynamicStreams(event) = event else { return };
        let (streams, noted) = match event {
            DynamicStreamsEvent::Ended { streams, .. } => {
                (streams.iter().map(|(stream, _)| stream.0).collect::<Vec<_>>(), &mut self.ended)
            }
            DynamicStreamsEvent::Closed { streams, outcome } => {
                assert_eq!(*outcome, Outcome::Performed, "{event:?}");
                (streams.iter().map(|stream| stream.0).collect(), &mut self.closed)
            }
            // Streams are opened once the association is established.
            DynamicStreamsEvent::Agreed => return,
            DynamicStreamsEvent::Stopped { .. } => panic!("{event:?}"),
        };
        for stream in streams {
            assert!(self.streams.contains(&stream) && noted.insert(stream), "{event:?}");
        }
    }

    /// Returns whether the peer has closed its direction of all streams. Those may be closed in turn.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        self.ended.len() == self.streams.len()
    }

    /// Returns whether both directions of all streams are closed. Their numbers can be used again then:
    /// forgets that they were.
    pub fn take_closed(&mut self) -> bool {
        let all = self.have_ended() && self.closed.len() == self.streams.len();
        if all {
            self.ended.clear();
            self.closed.clear();
        }
        all
    }
}
