//! Tests of stream reconfiguration (RFC 6525) common to usrsctp and the kernel, with losses.

use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Reconfigure;
use strandline_proto::event::{Event, SendInfo};
use strandline_proto::number::{Ppid, StreamId};
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection};

use crate::dynamic::Opened;
use crate::session::{LOSS_PER_MILLE, Session};
use crate::traffic::{Planned, plan};

/// Number of outgoing streams that a peer begins with.
pub const PEER_STREAMS: u16 = 90;

/// Performs every request of the peer. Each side begins with fewer streams than the other accepts.
pub fn performs_all_requests(association: &mut AssociationConfig) {
    association.extensions.peer_requests = PeerRequests::ALL;
    association.outbound_streams = 50;
    association.inbound_streams_max = 100;
}

/// Requests and their outcomes.
impl Session {
    /// Makes a request.
    ///
    /// # Panics
    /// If it is refused at once.
    pub fn ask(&mut self, request: Reconfigure) {
        let now = self.driver.now();
        assert_eq!(request.ask(&mut self.driver.endpoint, now, self.id), Ok(()));
    }

    /// Waits for a reset of streams in this direction.
    ///
    /// # Panics
    /// If it is refused.
    pub fn streams_reset(&mut self, wanted: StreamDirection) {
        let outcome = self.driver.event("StreamsReset", |_, event| match event {
            Event::StreamsReset { direction, outcome, .. } if *direction == wanted => Some(*outcome),
            _ => None,
        });
        assert_eq!(outcome, Outcome::Performed);
    }

    /// Sends messages on a stream. Returns their SSNs as the peer, started with `-v`, reports them.
    ///
    /// # Panics
    /// If there is no room.
    pub fn ssns_at_the_peer(&mut self, stream: u16, count: usize) -> Vec<String> {
        for _ in 0..count {
            let info = SendInfo::on(StreamId(stream)).ppid(Ppid(1));
            let now = self.driver.now();
            self.driver.endpoint.send(now, self.id, info, vec![0].into()).expect("there is room");
        }
        let wanted = format!("RX len=1 stream={stream} ");
        let lines = (0..count).map(|_| self.expect(&wanted));
        lines.map(|line| line.split_once("ssn=").map_or(String::new(), |(_, ssn)| ssn.to_owned())).collect()
    }

    /// Waits for a message of the peer on a stream. Discards others.
    fn message_on(&mut self, stream: u16) {
        let id = self.id;
        self.driver.until(&format!("a message on stream {stream}"), |driver| {
            std::iter::from_fn(|| driver.endpoint.recv(driver.now(), id))
                .any(|message| message.stream == StreamId(stream))
                .then_some(())
        });
    }

    fn has_streams(&mut self, outbound: u16, inbound: u16) {
        let id = self.id;
        self.driver.until(&format!("{outbound} outgoing and {inbound} incoming streams"), |driver| {
            let status = driver.endpoint.status(id)?;
            (status.outbound_streams == outbound && status.inbound_streams == inbound).then_some(())
        });
    }

    /// Waits until the peer has the response to its request for more outgoing streams, before which it
    /// refuses to send on them. usrsctp reports how many it has, the kernel how many it has added.
    fn peer_may_use(&mut self, outgoing: u16, added: u16) {
        let reports = [outgoing, added].map(|count| format!(" out={count}"));
        loop {
            let line = self.expect("STREAMS flags=0 ");
            if reports.iter().any(|report| line.ends_with(report)) {
                return;
            }
        }
    }
}

/// The tests, with a peer that was started with `-v`.
impl Session {
    /// Resets streams in each direction, at this side's request and at the peer's.
    ///
    /// # Panics
    /// If one isn't performed, or a number doesn't begin anew.
    pub fn reset_streams_under_losses(mut self) {
        self.driver.lose(LOSS_PER_MILLE);
        for _ in 0..3 {
            assert_eq!(self.ssns_at_the_peer(7, 3), ["0", "1", "2"]);
            self.ask(Reconfigure::ResetStreams(StreamDirection::Outgoing, StreamId(7).into()));
            self.streams_reset(StreamDirection::Outgoing);
            self.expect("RESET flags=1 streams=1");
            assert_eq!(self.ssns_at_the_peer(7, 2), ["0", "1"]);
            self.peer.tell("reset in 7");
            self.streams_reset(StreamDirection::Outgoing);
            self.expect("RESET flags=1 streams=1");
        }
        self.peer.tell("reset out 3");
        self.streams_reset(StreamDirection::Incoming);
        self.expect("RESET flags=2 streams=1");
        self.ask(Reconfigure::ResetStreams(StreamDirection::Incoming, StreamId(4).into()));
        self.streams_reset(StreamDirection::Incoming);
        self.shut_down();
    }

    /// Sends messages without losses, and waits until the peer has them. If it `echoes` them, waits until
    /// they have come back and are acknowledged. Losses begin afterwards.
    fn number_messages(&mut self, echoes: bool) {
        self.driver.lose(0);
        assert_eq!(self.ssns_at_the_peer(7, 3), ["0", "1", "2"]);
        let id = self.id;
        let mut missing = if echoes { 3_i32 } else { 0 };
        self.driver.until("the echoes", |driver| {
            let now = driver.now();
            while driver.endpoint.recv(now, id).is_some() {
                missing -= 1;
            }
            let status = driver.endpoint.status(id)?;
            (missing <= 0 && status.unacknowledged_bytes == 0).then_some(())
        });
        self.driver.run_for(2 * AssociationConfig::default().sack_delay);
        self.driver.lose(LOSS_PER_MILLE);
    }

    /// Resets all numbers, at this side's request and, if `also_peer`, at the peer's.
    ///
    /// The peers perform our request while DATA of their own is missing here, which is then never delivered:
    /// so nothing is on its way when one side asks. If the peer `echoes` messages, they have come back
    /// before.
    ///
    /// # Panics
    /// If one isn't performed, or a number doesn't begin anew.
    pub fn renumber_under_losses(mut self, echoes: bool, also_peer: bool) {
        let requests = if also_peer { 2 } else { 1 };
        for request in 0..requests {
            self.number_messages(echoes);
            if request == 0 {
                self.ask(Reconfigure::ResetAssociation);
            } else {
                self.peer.tell("renumber");
            }
            let outcome = self.driver.event("AssociationReset", |_, event| match event {
                Event::AssociationReset { outcome, .. } => Some(*outcome),
                _ => None,
            });
            assert_eq!(outcome, Outcome::Performed);
            self.expect("RENUMBERED flags=0");
        }
        self.number_messages(echoes);
        self.shut_down();
    }

    /// Adds streams in each direction, at this side's request and at the peer's, which has `PEER_STREAMS` at first; and
    /// refuses more than this side accepts.
    ///
    /// # Panics
    /// If that isn't so, or no message passes on them.
    pub fn add_streams_under_losses(mut self) {
        self.driver.lose(LOSS_PER_MILLE);
        self.has_streams(50, PEER_STREAMS);
        self.ask(Reconfigure::AddStreams { outgoing: 5, incoming: 0 });
        self.has_streams(55, 90);
        assert_eq!(self.ssns_at_the_peer(54, 2), ["0", "1"]);
        self.peer.tell("add 0 6");
        self.has_streams(61, 90);
        assert_eq!(self.ssns_at_the_peer(60, 2), ["0", "1"]);
        self.ask(Reconfigure::AddStreams { outgoing: 0, incoming: 4 });
        self.has_streams(61, 94);
        self.peer_may_use(94, 4);
        self.peer.tell("message 93");
        self.message_on(93);
        self.peer.tell("add 3 0");
        self.has_streams(61, 97);
        self.peer_may_use(97, 3);
        self.peer.tell("message 96");
        self.message_on(96);
        self.peer.tell("add 4 0");
        self.expect("STREAMS flags=4");
        self.shut_down();
    }

    /// Opens and closes streams at run time, like data channels (RFC 8831 section 6.7): this side some and
    /// the peer others. Each side resets its direction once the other one has, and the numbers are used
    /// again. The peer was started with `echo -v`, or `-x` if it `closes` by itself.
    ///
    /// # Panics
    /// If a message is lost, or a request refused.
    pub fn open_and_close_streams_under_losses(mut self, closes: bool) {
        self.driver.lose(LOSS_PER_MILLE);
        // pion makes a request for each of several streams at once, and forgets those that overtake a lost one.
        let (rounds, count) = if closes { (8, 1) } else { (6, 10) };
        for round in 0..rounds {
            let ours = closes || round % 2 == 0;
            let mut opened = Opened::new(&mut self.driver.endpoint, self.id, ours, count);
            if !ours {
                for stream in opened.streams.clone() {
                    self.peer.tell(&format!("message {stream}"));
                    self.message_on(stream);
                }
            }
            let streams = opened.streams.clone();
            let on = |planned: Planned| Planned {
                stream: streams[planned.number as usize % streams.len()],
                ..planned
            };
            self.exchange(&plan(40, 1500, 1).into_iter().map(on).collect::<Vec<_>>());
            let list = streams.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
            if !ours {
                self.peer.tell(&format!("reset out {list}"));
                self.driver.until("the ends of the streams", |driver| {
                    driver.events.drain(..).for_each(|(_, event)| opened.note(&event));
                    opened.have_ended().then_some(())
                });
            }
            let now = self.driver.now();
            opened.close(&mut self.driver.endpoint, self.id, now);
            self.ends_at_the_peer(streams.len(), closes);
            if ours && !closes {
                self.peer.tell(&format!("reset out {list}"));
            }
            self.driver.until("both directions are closed", |driver| {
                driver.events.drain(..).for_each(|(_, event)| opened.note(&event));
                opened.take_closed().then_some(())
            });
        }
        self.driver.lose(0);
        self.shut_down();
    }

    /// Waits until the peer has reported so many incoming streams as reset, one in each line if it `closes` them.
    fn ends_at_the_peer(&mut self, count: usize, closes: bool) {
        let mut ended = 0;
        while ended < count {
            if closes {
                self.expect("RESET stream=");
                ended += 1;
            } else {
                let line = self.expect("RESET flags=1 ");
                ended += line.split_once("streams=").and_then(|(_, n)| n.parse::<usize>().ok()).unwrap_or(0);
            }
        }
        assert_eq!(ended, count);
    }
}
