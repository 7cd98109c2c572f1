//! Explicit congestion notification: RFC 3168 for IP, RFC 4960 appendix A for the parameter and the chunks, RFC 8257
//! section 3.2 for receivers that use DCTCP.

mod wrap;

use strandline_wire::chunk::{Chunk, Cwr, Ecne, Init, sack};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::*;
use super::*;
use crate::config::{ExtensionsConfig, Recovery};
use crate::congestion::Algorithm;
use crate::event::{Datagram, Transmit};

/// The parameter on the wire.
const DECLARATION: [u8; 4] = [0x80, 0, 0, 4];

fn asking(client: bool, server: bool) -> Pair {
    let with = |ecn: bool, host: usize| {
        let extensions = ExtensionsConfig { ecn, ..ExtensionsConfig::NONE };
        let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
        EndpointConfig { association, ..config(1, host) }
    };
    Pair::with(with(client, CLIENT), with(server, SERVER))
}

fn declares(sent: &Sent) -> bool {
    let init = match chunks(sent).into_iter().next() {
        Some(Chunk::Init(init)) => init,
        Some(Chunk::InitAck(ack)) => ack,
        _ => return false,
    };
    init.parameters.iter().flatten().any(|raw| matches!(raw.parse(), Ok(Parameter::EcnCapable)))
}

/// A server with ECN and the controller of RFC 9260, and a peer that asked for ECN.
fn agreed(congestion: Algorithm) -> Raw {
    agreed_with(congestion, Recovery::Rfc9260)
}

fn agreed_with(congestion: Algorithm, recovery: Recovery) -> Raw {
    agreed_from(congestion, recovery, Tsn(1000))
}

/// As `agreed_with`, with `tsn` as the peer's first TSN.
fn agreed_from(congestion: Algorithm, recovery: Recovery, tsn: Tsn) -> Raw {
    let pair = Pair::configured(|config| {
        config.recovery = recovery;
        config.congestion = congestion;
        config.extensions.ecn = true;
        config.path_mtu_max = config.path_mtu_initial;
        config.heartbeat_interval = None;
    });
    Raw::open(pair, Init { parameters: Parameters::new(&DECLARATION), ..init(tsn) })
}

impl Raw {
    /// Sends a packet with one chunk of DATA, marked or not. Returns what the server sends.
    fn say_marked(&mut self, number: u32, ecn: u8) -> Vec<Sent> {
        let data = whole(self.tsn + number, number as u16, b"marked or not");
        let sent = self.pair.forge(CLIENT, (RAW_PORT, PORT), self.tag, |packet| assert!(packet.push(&data)));
        let datagram = Datagram {
            source: sent.source,
            destination: Some(sent.destination.ip()),
            bytes: &sent.bytes,
            ecn,
        };
        let now = self.pair.now;
        self.pair.hosts[SERVER].endpoint.handle_datagram(now, datagram);
        self.heard()
    }

    fn cwnd(&self) -> u32 {
        self.server().paths(self.server).unwrap()[0].cwnd
    }

    /// Returns what the server hands to the carrier next.
    fn transmits(&mut self) -> Vec<Transmit> {
        let (now, mut buffer) = (self.pair.now, vec![0; 65_536]);
        let endpoint = &mut self.pair.hosts[SERVER].endpoint;
        core::iter::from_fn(|| endpoint.poll_transmit(now, &mut buffer, 1)).collect()
    }
}

/// Returns the lowest TSNs of the ECNEs in these packets, and whether each is in front of a SACK.
fn ecnes(packets: &[Sent]) -> Vec<(Tsn, bool)> {
    let of = |sent: &Sent| -> Vec<(Tsn, bool)> {
        let chunks = chunks(sent);
        let next_is_sack = |at: usize| matches!(chunks.get(at + 1), Some(Chunk::Sack(_)));
        let told = |(at, chunk): (usize, &Chunk<'_>)| match chunk {
            Chunk::Ecne(ecne) => {
                assert!(
                    ecne.packets.is_some_and(|packets| packets > 0),
                    "usrsctp discards what has no number"
                );
                Some((ecne.lowest_tsn, next_is_sack(at)))
            }
            _ => None,
        };
        chunks.iter().enumerate().filter_map(told).collect()
    };
    packets.iter().flat_map(of).collect()
}

#[test]
fn both_have_to_ask() {
    for (client, server) in [(false, false), (true, false), (false, true), (true, true)] {
        let (pair, at_client, at_server) = asking(client, server).establish();
        let said = |kind: u8| declares(pair.log.iter().find(|sent| has(kind)(sent)).unwrap());
        assert_eq!((said(kind::INIT), said(kind::INIT_ACK)), (client, client && server));
        for (host, id) in [(CLIENT, at_client), (SERVER, at_server)] {
            let status = pair.hosts[host].endpoint.status(id).unwrap();
            assert_eq!(
                (status.extensions.ecn, status.marks_answered),
                (client && server, 0),
                "both can see it"
            );
        }
    }
}

#[test]
fn dctcp_asks_by_itself() {
    let config = AssociationConfig { congestion: Algorithm::Dctcp, ..AssociationConfig::default() };
    assert!(config.wants_ecn() && !AssociationConfig::default().wants_ecn());
}

#[test]
fn new_data_may_be_marked_and_nothing_else() {
    let mut raw = agreed(Algorithm::Rfc9260);
    raw.pair.send(SERVER, raw.server, 0, &[1; 1000]);
    assert!(raw.transmits().iter().all(|transmit| transmit.ecn_capable));
    raw.say_data(&whole(raw.tsn, 0, b"acknowledged at once"));
    raw.pair.now += Duration::from_secs(3);
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.handle_timeout(now);
    let again = raw.transmits();
    assert!(!again.is_empty() && again.iter().all(|transmit| !transmit.ecn_capable), "sent again");
    let mut raw = Raw::new();
    raw.pair.send(SERVER, raw.server, 0, &[1; 1000]);
    assert!(raw.transmits().iter().all(|transmit| !transmit.ecn_capable), "nobody asked");
}

/// Appendix A: each SACK has an ECNE until CWR answers it.
#[test]
fn marks_are_told_until_cwr_comes() {
    let mut raw = agreed(Algorithm::Rfc9260);
    let tsn = raw.tsn;
    assert_eq!(ecnes(&raw.say_marked(0, 0b10)), []);
    assert_eq!(ecnes(&raw.say_marked(1, 0b11)), [(tsn + 1, true)], "at once");
    let told: Vec<_> = (2..6).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert!(told.len() >= 2 && told.iter().all(|told| *told == (tsn + 1, true)), "{told:?}");
    raw.say_all(&[&Cwr { lowest_tsn: tsn }]);
    assert!(
        !(6..8).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect::<Vec<_>>().is_empty(),
        "an older one"
    );
    raw.say_all(&[&Cwr { lowest_tsn: tsn + 1 }]);
    let told: Vec<_> = (8..12).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert_eq!(told, []);
    assert_eq!(ecnes(&raw.say_marked(12, 0b11)), [(tsn + 12, true)]);
}

/// usrsctp as a server may answer with a TSN that it drew before the set-up. It ends the reports of what has
/// arrived, and what was marked since is reported with a TSN that has.
#[test]
fn cwr_beyond_what_has_arrived_answers() {
    let mut raw = agreed(Algorithm::Rfc9260);
    let tsn = raw.tsn;
    let cwr = Cwr { lowest_tsn: tsn + 1_000_000_000 };
    raw.say_marked(0, 0b10);
    assert_eq!(ecnes(&raw.say_marked(1, 0b11)), [(tsn + 1, true)]);
    assert_eq!(ecnes(&raw.say_marked(2, 0b11)), [], "its SACK is delayed");
    raw.say_all(&[&cwr]);
    let told: Vec<_> = (3..6).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert!(!told.is_empty() && told.iter().all(|told| *told == (tsn + 2, true)), "{told:?}");
    raw.say_all(&[&cwr]);
    let told: Vec<_> = (6..10).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert_eq!(told, []);
}

/// RFC 8257 section 3.2: exactly the marked data is reported.
#[test]
fn dctcp_tells_marks_exactly() {
    let mut raw = agreed(Algorithm::Dctcp);
    let tsn = raw.tsn;
    raw.say_marked(0, 0b10);
    assert_eq!(ecnes(&raw.say_marked(1, 0b11)), [(tsn + 1, true)]);
    let told: Vec<_> = (2..4).flat_map(|number| ecnes(&raw.say_marked(number, 0b11))).collect();
    assert_eq!(told, [(tsn + 2, true)], "every second packet is acknowledged");
    let told: Vec<_> = (4..8).flat_map(|number| ecnes(&raw.say_marked(number, 0b10))).collect();
    assert_eq!(told, [], "no more marks");
}

fn stats(pair: &Pair, host: usize, id: AssociationId) -> crate::stats::AssociationStats {
    pair.hosts[host].endpoint.status(id).unwrap().stats
}

/// Returns how many packets of a host its peer has reported as marked.
fn reported(pair: &Pair, host: usize, id: AssociationId) -> u32 {
    pair.hosts[host].endpoint.paths(id).unwrap()[0].marks_reported
}

/// Whatever the controllers are, the sender counts what the receiver has seen.
#[test]
fn marks_are_counted_with_every_controller() {
    for congestion in
        [Algorithm::Cubic, Algorithm::Rfc9260, Algorithm::Bbr, Algorithm::Swift, Algorithm::Dctcp]
    {
        let (mut pair, client, server) = Pair::configured(|config| {
            config.congestion = congestion;
            config.extensions.ecn = true;
        })
        .establish();
        let mut packets = 0;
        for _ in 0..60 {
            pair.send(CLIENT, client, 0, &[7; 3000]);
            pair.collect();
            while let Some(sent) = pair.wire.pop_front() {
                packets += u32::from(has(kind::DATA)(&sent));
                let marked = has(kind::DATA)(&sent) && packets.is_multiple_of(7) | (packets % 7 == 1);
                let to = usize::from(sent.source == address(CLIENT, 0));
                let datagram = Datagram {
                    source: sent.source,
                    destination: Some(sent.destination.ip()),
                    bytes: &sent.bytes,
                    ecn: if marked { 0b11 } else { 0b10 },
                };
                pair.now += Duration::from_millis(1);
                pair.hosts[to].endpoint.handle_datagram(pair.now, datagram);
                pair.collect();
            }
            pair.pass(Duration::from_millis(50));
        }
        pair.pass(Duration::from_secs(1));
        let there = stats(&pair, SERVER, server).marks_received;
        assert!(there > 20, "{congestion:?}: {there}");
        assert_eq!(reported(&pair, CLIENT, client), there, "{congestion:?}");
    }
}

/// Repeated, reordered and nonsensical reports count no packet twice, and none that was never sent.
#[test]
fn reported_marks_are_counted_once() {
    let mut raw = agreed(Algorithm::Rfc9260);
    let first = raw.server_tsn;
    raw.pair.send(SERVER, raw.server, 0, &[1; 3000]);
    raw.heard();
    let reports =
        [(0, Some(1), 1), (0, Some(2), 2), (0, Some(2), 2), (1, Some(1), 3), (0, Some(2), 3), (1, None, 3)];
    for (tsn, packets, counted) in reports {
        raw.say_all(&[&Ecne { lowest_tsn: first + tsn, packets }]);
        assert_eq!(reported(&raw.pair, SERVER, raw.server), counted);
    }
    raw.say_all(&[&Ecne { lowest_tsn: first + 2, packets: Some(u32::MAX) }]);
    let sent = stats(&raw.pair, SERVER, raw.server).packets_sent;
    assert_eq!(u64::from(reported(&raw.pair, SERVER, raw.server)), sent);
}

/// RFC 3168 section 6.1.2: one reduction for the data in flight, and CWR with the next data.
#[test]
fn sender_shrinks_once_and_sends_cwr() {
    let mut raw = agreed(Algorithm::Rfc9260);
    let first = raw.server_tsn;
    raw.pair.send(SERVER, raw.server, 0, &[1; 3000]);
    let count = tsns(&raw.heard()).concat().len() as u32;
    let before = raw.cwnd();
    raw.pair.now += Duration::from_millis(10);
    raw.say_all(&[&Ecne { lowest_tsn: first, packets: None }]);
    let shrunk = raw.cwnd();
    assert_eq!(shrunk, (before / 2).max(4 * 1240).min(before), "the floor is no reason to grow");
    raw.say_all(&[&Ecne { lowest_tsn: first + 1, packets: Some(2) }]);
    assert_eq!(raw.cwnd(), shrunk, "of the same window");
    raw.say_all(&[&Ecne { lowest_tsn: first + 1000, packets: None }]);
    assert_eq!(raw.cwnd(), shrunk, "never sent");
    assert_eq!(raw.server().status(raw.server).unwrap().marks_answered, 1);
    raw.say_sack(count, 1 << 20, &[]);
    let sent = raw.server_sends(100);
    assert_eq!(sent[0].kinds(), [kind::CWR, kind::DATA]);
    let Some(Chunk::Cwr(cwr)) = chunks(&sent[0]).into_iter().next() else { panic!("no CWR") };
    assert_eq!(cwr.lowest_tsn, first + 1);
    assert_eq!(raw.server_sends(100)[0].kinds(), [kind::DATA], "once for each ECNE");
}

/// A side that did not ask for ECN neither reports marks nor reacts to ECNE.
#[test]
fn without_agreement_nothing_changes() {
    let mut raw = Raw::new();
    let first = raw.server_tsn;
    raw.pair.send(SERVER, raw.server, 0, &[1; 3000]);
    raw.heard();
    let before = raw.cwnd();
    let sent = raw.say_all(&[&Ecne { lowest_tsn: first, packets: None }, &Cwr { lowest_tsn: first }]);
    assert_eq!((raw.cwnd(), raw.state()), (before, "ESTABLISHED"));
    assert!(sent.iter().all(|sent| !sent.kinds().contains(&kind::CWR)));
    assert_eq!(ecnes(&raw.say_marked(0, 0b11)), []);
}

/// Combinations that treat a mark and a loss alike: controllers and loss recovery.
const ALIKE: [(Algorithm, Recovery); 3] = [
    (Algorithm::Rfc9260, Recovery::Rfc9260),
    (Algorithm::Rfc9260, Recovery::Rack),
    (Algorithm::Cubic, Recovery::Rack),
];

/// A server that sends as much as it may, its window grown to 40 packets.
struct Flow {
    raw: Raw,
    /// Number of the first outstanding chunk, and of the next new one.
    acked: u32,
    next: u32,
}

impl Flow {
    fn grown(congestion: Algorithm, recovery: Recovery) -> Self {
        let mut flow = Self { raw: agreed_with(congestion, recovery), acked: 0, next: 0 };
        flow.grow();
        flow
    }

    fn grow(&mut self) {
        for _ in 0..4 {
            self.raw.pair.send(SERVER, self.raw.server, 0, &[1; 200_000]);
        }
        let heard = self.raw.heard();
        self.count(&heard);
        for _ in 0..60 {
            if self.raw.cwnd() > 40 * 1240 {
                return;
            }
            self.acknowledge();
        }
        panic!("it does not grow: {:?}", self.path());
    }

    /// Acknowledges everything that was sent.
    fn acknowledge(&mut self) {
        // So short that nothing is paced.
        self.raw.pair.now += Duration::from_millis(2);
        self.acked = self.next;
        let heard = self.raw.say_sack(self.next, 1 << 20, &[]);
        self.count(&heard);
    }

    fn count(&mut self, heard: &[Sent]) {
        let first = self.raw.server_tsn;
        let last = tsns(heard).concat().into_iter().map(|tsn| tsn.distance_from(first) + 1).max();
        self.next = self.next.max(last.unwrap_or(0));
    }

    /// Asserts that a mark of this chunk changes neither window nor threshold.
    fn marks_to_no_effect(&mut self, number: u32, case: &str) {
        let before = self.path();
        self.mark(number);
        let after = self.path();
        assert_eq!((after.cwnd, after.ssthresh), (before.cwnd, before.ssthresh), "{case}");
    }

    fn path(&self) -> crate::stats::PathStatus {
        self.raw.server().paths(self.raw.server).unwrap()[0].clone()
    }

    fn again(&self) -> u32 {
        self.raw.server().status(self.raw.server).unwrap().stats.retransmissions
    }

    /// Asserts that the next mark shrinks the window.
    fn mark_counts(&mut self, what: impl core::fmt::Debug) {
        let before = self.raw.cwnd();
        self.mark(0);
        let now = self.raw.cwnd();
        assert!(now < before / 100 * 85, "{what:?}: {now} of {before}");
    }

    /// Sends ECNE for the first outstanding chunk, or one `beyond` it.
    fn mark(&mut self, beyond: u32) {
        let lowest_tsn = self.raw.server_tsn + self.acked + beyond;
        let heard = self.raw.say_all(&[&Ecne { lowest_tsn, packets: Some(1) }]);
        self.count(&heard);
    }

    /// Loses the first outstanding chunk while the following ones arrive. Returns the smallest window meanwhile.
    fn lose(&mut self) -> u32 {
        let mut least = u32::MAX;
        for last in 2..8 {
            self.raw.pair.now += Duration::from_millis(1);
            let heard = self.raw.say_sack(self.acked, 1 << 20, &[(2, last)]);
            self.count(&heard);
            least = least.min(self.raw.cwnd());
        }
        assert_eq!(self.again(), 1);
        least
    }

    fn time_out(&mut self) {
        self.raw.pair.now += Duration::from_secs(3);
        let now = self.raw.pair.now;
        self.raw.pair.hosts[SERVER].endpoint.handle_timeout(now);
        self.raw.heard();
    }
}

/// RFC 3168 section 6.1.2: one reduction for all drops and marks of one window, whichever is reported first.
#[test]
fn mark_and_loss_of_one_window_count_once() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown(congestion, recovery);
        let before = flow.raw.cwnd();
        flow.mark(0);
        let marked = flow.raw.cwnd();
        assert!(marked < before / 100 * 71, "{congestion:?} {recovery:?}: {marked} of {before}");
        assert!(flow.lose() >= marked, "{congestion:?} {recovery:?}: {:?}", flow.path());

        let mut flow = Flow::grown(congestion, recovery);
        let lost = flow.lose();
        assert!(lost < before / 100 * 81);
        let now = flow.raw.cwnd();
        flow.mark(9);
        assert_eq!(flow.raw.cwnd(), now, "{congestion:?} {recovery:?}");
    }
}

/// After a time-out, a mark neither lowers ssthresh again nor raises the window.
#[test]
fn mark_of_timed_out_data_is_no_news() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown(congestion, recovery);
        flow.time_out();
        let before = flow.path();
        assert_eq!(before.cwnd, 1240);
        flow.marks_to_no_effect(1, &format!("{congestion:?} {recovery:?}"));
    }
}

/// The time-out was spurious: the window is the old one, less what the mark takes.
#[test]
fn mark_counts_after_an_undone_time_out() {
    let mut flow = Flow::grown(Algorithm::Cubic, Recovery::Rack);
    let before = flow.raw.cwnd();
    flow.time_out();
    flow.mark(1);
    // All of it arrives late, including what was sent once.
    flow.raw.pair.now += Duration::from_millis(2);
    flow.raw.say_sack(flow.next - 1, 1 << 20, &[]);
    let after = flow.raw.cwnd();
    assert_eq!(flow.raw.server().status(flow.raw.server).unwrap().stats.undone, 1);
    assert!(after > before / 100 * 65 && after < before / 100 * 75, "{after} of {before}");
}

/// A mark on data that was sent after the reduction counts anew.
#[test]
fn a_mark_in_the_next_window_counts() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown(congestion, recovery);
        flow.mark(0);
        flow.acked = flow.next;
        flow.raw.pair.now += Duration::from_millis(2);
        let heard = flow.raw.say_sack(flow.next, 1 << 20, &[]);
        flow.count(&heard);
        flow.mark_counts((congestion, recovery));
    }
}

/// RFC 3168 section 6.1.2: acknowledgements that report marks do not grow the window.
#[test]
fn what_tells_of_marks_lets_no_window_grow() {
    for (congestion, recovery) in ALIKE {
        let mut flow = Flow::grown(congestion, recovery);
        let lowest_tsn = flow.raw.server_tsn + flow.acked;
        flow.mark(0);
        let shrunk = flow.raw.cwnd();
        for steps in [2, 4, 8, 16] {
            flow.raw.pair.now += Duration::from_millis(1);
            let cumulative = (flow.raw.server_tsn + flow.acked + steps).previous();
            flow.raw.say(|packet| {
                assert!(packet.push(&Ecne { lowest_tsn, packets: Some(1) }));
                assert!(sack::write(packet, cumulative, 1 << 20, core::iter::empty(), &[]));
            });
            assert_eq!(flow.raw.cwnd(), shrunk, "{congestion:?} {recovery:?}");
        }
    }
}
