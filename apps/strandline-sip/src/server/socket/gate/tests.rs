use std::net::UdpSocket;
use std::time::Duration;

use super::*;

/// Two sockets, to measure how much one passes of what the other sends.
struct Pair {
    from: UdpSocket,
    to: UdpSocket,
}

impl Pair {
    fn new(share: f64) -> Self {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket2::SockRef::from(&to).attach_filter(&filter(share)).unwrap();
        Self { from, to }
    }

    /// The messages that pass. On loopback, they arrive as soon as they are sent.
    fn through(&self, messages: &[String]) -> Vec<String> {
        let mut through = Vec::new();
        let mut room = [0; 2000];
        for message in messages {
            self.from.send(message.as_bytes()).unwrap();
            // Too short to be dropped: it marks the end of the others.
            self.from.send(b"end").unwrap();
            loop {
                let len = self.to.recv(&mut room).unwrap();
                match String::from_utf8(room[..len].to_vec()).unwrap() {
                    end if end == "end" => break,
                    message => through.push(message),
                }
            }
        }
        through
    }
}

fn request(line: &str, number: u32) -> String {
    format!(
        "{line} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{number};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.com>;tag=7\r\nTo: <sip:b@example.com>\r\nCall-ID: {number}@192.0.2.1\r\nCSeq: 1 X\r\n\r\n"
    )
}

#[test]
fn closed_gate_drops_only_new_requests() {
    let pair = Pair::new(0.0);
    let closed = [
        "INVITE sip:b@example.com",
        "REGISTER sip:example.com",
        "MESSAGE sip:b@example.com",
        "OPTIONS sip:b",
    ];
    let stopped: Vec<String> = closed.iter().map(|line| request(line, 1)).collect();
    assert_eq!(pair.through(&stopped), Vec::<String>::new());
    // The kernel counts the dropped ones.
    assert_eq!(strandline_udp::dropped(&pair.to).unwrap(), 4);
    let open = [
        "ACK sip:b@example.com",
        "BYE sip:b@example.com",
        "CANCEL sip:b@example.com",
        "PRACK sip:b@example.com",
        "UPDATE sip:b@example.com",
        "INVITE urn:service:sos",
        "INVITE sip:sos@example.com",
        "INVITE SIP:SOS@example.com",
        "INVITE sips:sos@example.com",
    ];
    let mut taken: Vec<String> = open.iter().map(|line| request(line, 1)).collect();
    taken.push(request("SIP/2.0 200 OK\r\nX: x", 1));
    taken.push("\r\n\r\n".to_owned());
    taken.push("INVITE sip:b@c".to_owned());
    assert_eq!(pair.through(&taken), taken);
}

#[test]
fn gate_passes_the_same_share_again() {
    let messages: Vec<String> = (0..2000).map(|number| request("INVITE sip:b@example.com", number)).collect();
    let pair = Pair::new(0.25);
    let through = pair.through(&messages);
    assert!((400..600).contains(&through.len()), "{} of 2000", through.len());
    assert_eq!(pair.through(&messages), through);
    assert_eq!(pair.through(&through), through);
    // With a larger share, the same ones pass, and more.
    let more = Pair::new(0.5).through(&messages);
    assert!((900..1100).contains(&more.len()) && through.iter().all(|message| more.contains(message)));
    assert_eq!(Pair::new(1.0).through(&messages).len(), 2000);
}

#[test]
fn packet_mark_matches_the_kernels_filter() {
    let mut messages: Vec<String> =
        (0..500).map(|number| request("REGISTER sip:example.com", number)).collect();
    // Messages of all lengths.
    let longest = request("INVITE sip:b@example.com", 7);
    messages.extend((8..longest.len()).map(|len| longest[..len].to_owned()));
    for share in [0.1, 0.5, 0.9] {
        let marked = |message: &&String| mark(message.as_bytes()).is_none_or(|mark| mark < threshold(share));
        let expected: Vec<String> = messages.iter().filter(marked).cloned().collect();
        assert_eq!(Pair::new(share).through(&messages), expected);
    }
    assert_eq!(mark(request("BYE sip:b@example.com", 1).as_bytes()), None);
}

fn at(tenths: u64) -> Duration {
    Duration::from_millis(tenths * 100)
}

/// An interval in which all requests were first transmissions, and `handled` of them were handled, with all
/// the time in use.
fn came(first: f64, handled: f64) -> Came {
    let elapsed = Duration::from_millis(100);
    let (stopped, refused, busy, worked, receiving_share) = (0.0, 0.0, 1.0, 1.0, 1.0 / 20.0);
    let (registers, began_unread) = (0.0, false);
    Came {
        elapsed,
        first,
        all: first,
        registers,
        began_unread,
        stopped,
        handled,
        refused,
        busy,
        worked,
        receiving_share,
    }
}

/// The interval with this share of the time in use.
fn with_busy(busy: f64, came: Came) -> Came {
    Came { busy, worked: busy, ..came }
}

fn near(share: Option<f64>, expected: f64) -> bool {
    share.is_some_and(|share| (share / expected - 1.0).abs() < 0.03)
}

#[test]
fn gate_closes_as_needed_and_stays() {
    let mut gate = Gate::new();
    let done = |first| came(first, 10_000.0);
    assert_eq!(gate.look(at(0), done(1e6), false), None);
    assert_eq!(gate.look(at(1), done(15_000.0), true), None);
    // The gate doesn't close far while the capacity is not well known.
    assert!(near(gate.look(at(2), done(100_000.0), true), 0.15));
    assert!((3..11).all(|tenths| gate.look(at(tenths), done(15_500.0), true).is_none()));
    // The capacity is known now, and too little arrives for the cost of reading to matter.
    assert!((11..20).all(|tenths| gate.look(at(tenths), done(15_500.0), true).is_none()));
    // Retransmissions are read as well, but a single burst is ignored.
    let many = Came { all: 50_000.0, ..done(15_500.0) };
    assert!((20..22).all(|tenths| gate.look(at(tenths), many, true).is_none()));
    assert_eq!(gate.look(at(22), done(11_500.0), true), None);
    assert!((23..25).all(|tenths| gate.look(at(tenths), many, true).is_none()));
    let share = gate.look(at(25), many, true);
    assert!(near(share, 0.15 * 11_500.0 / 17_225.0), "{share:?}");
    assert_eq!(Some(gate.admitted()), share);
    // After a short stall, it neither closes nor opens.
    assert_eq!(gate.look(at(26), came(11_500.0, 1000.0), true), None);
    assert!((27..60).all(|tenths| gate.look(at(tenths), done(11_500.0), true).is_none()));
}

#[test]
fn reading_only_shows_spare_capacity() {
    let busy = Came { refused: 80_000.0, ..came(85_000.0, 5000.0) };
    let share = Gate::new().look(at(0), busy, true);
    assert!(near(share, 9000.0 * 1.5 / 85_000.0), "{share:?}");
}

#[test]
fn unused_time_counts_as_capacity() {
    let mut gate = Gate::new();
    let a_third = with_busy(0.3, came(3000.0, 3000.0));
    (0..20).for_each(|tenths| assert_eq!(gate.look(at(tenths), a_third, false), None));
    // Most of the first tenth of a second of a flood goes into reading it.
    let share = gate.look(at(20), came(100_000.0, 1000.0), true);
    let can = (3000.0 * 2.0 / 3.0 + 1000.0 / 3.0) / (0.3 * 2.0 / 3.0 + 1.0 / 3.0);
    assert!(near(share, can * 1.5 / 100_000.0), "{share:?}");
}

#[test]
fn earlier_throughput_fades_under_load() {
    for before in [10.0, 50_000.0] {
        let mut gate = Gate::new();
        let all = with_busy(before / 50_000.0, came(before, before));
        (0..100).for_each(|tenths| assert_eq!(gate.look(at(tenths), all, false), None));
        let mut share = 1.0;
        for tenths in 100..130 {
            let first = 100_000.0 * share;
            let again = Came { all: 3.0 * first, ..came(first, 10_000.0) };
            share = gate.look(at(tenths), again, true).unwrap_or(share);
        }
        assert!((0.09..=0.2).contains(&share), "{share} after {before}");
    }
}

#[test]
fn rejects_alone_show_no_capacity() {
    let mut gate = Gate::new();
    assert!(near(gate.look(at(0), came(100_000.0, 10_000.0), true), 0.15));
    // Rejected clients retransmit for eight seconds.
    let again = with_busy(0.04, Came { all: 8000.0, refused: 8000.0, ..came(0.0, 0.0) });
    for tenths in 1..80 {
        gate.look(at(tenths), again, true);
    }
    let admitted = gate.admitted();
    let mut share = None;
    for tenths in 80..90 {
        share = gate.look(at(tenths), came(100_000.0 * gate.admitted(), 10_000.0), true).or(share);
    }
    assert!(share.is_some_and(|share| (0.1..=0.16).contains(&share)), "{share:?} of {admitted}");
}

#[test]
fn trial_opening_grows_without_rejects() {
    let mut gate = Gate::new();
    let part = |first: f64| with_busy(first / 10_000.0, came(first, first));
    assert!(near(gate.look(at(0), came(100_000.0, 10_000.0), true), 0.15));
    assert!((1..20).all(|tenths| gate.look(at(tenths), came(11_500.0, 10_000.0), true).is_none()));
    // A pause between two bursts is ignored.
    assert!((20..24).all(|tenths| gate.look(at(tenths), part(100.0), true).is_none()));
    assert!((24..40).all(|tenths| gate.look(at(tenths), came(11_500.0, 10_000.0), true).is_none()));
    let opened = (40..70).find_map(|tenths| Some((tenths, gate.look(at(tenths), part(5000.0), true)?)));
    let (tenths, share) = opened.unwrap();
    // More requests are let in, as time permits.
    assert!(tenths < 50 && (0.25..0.36).contains(&share) && gate.admitted() < 0.16, "{opened:?}");
    // Requests on trial aren't counted, and the trial isn't restarted.
    assert!((tenths + 1..tenths + 40).all(|tenths| gate.look(at(tenths), part(5000.0), true).is_none()));
    assert!(gate.admitted() < 0.16);
    // The trial has ended, and as much arrives as can be handled.
    assert_eq!(gate.look(at(tenths + 40), came(10_000.0, 10_000.0), true), None);
    assert!(near(Some(gate.admitted()), share));
    // No request is rejected, but many are dropped: the overload continues.
    let many = Came { stopped: 50_000.0, ..came(10_000.0, 10_000.0) };
    assert!((100..130).all(|tenths| gate.look(at(tenths), many, false).is_none()));
    // Few are dropped: the gate opens completely.
    let (few, mut tenths) = (Came { stopped: 1000.0, ..part(2000.0) }, 130);
    while let Some(share) = gate.look(at(tenths), few, false) {
        assert_eq!(gate.admitted(), share);
        tenths += 1;
    }
    assert!(gate.admitted() == 1.0 && tenths < 140, "{tenths}");
}

/// An interval with REGISTERs only, of which receiving takes a quarter.
fn registers(all: f64, handled: f64) -> Came {
    Came { registers: all, receiving_share: 0.25, ..came(all, handled) }
}

#[test]
fn little_more_registers_than_handled_are_let_in() {
    let mut gate = Gate::new();
    (0..20).for_each(|tenths| assert_eq!(gate.look(at(tenths), registers(10_000.0, 10_000.0), true), None));
    // Receiving a fifth more takes 7 % of the time.
    assert!((20..22).all(|tenths| gate.look(at(tenths), registers(12_000.0, 10_000.0), true).is_none()));
    assert!(near(gate.look(at(22), registers(12_000.0, 10_000.0), true), 10_300.0 / 12_000.0));
    // Of calls, receiving takes less.
    let mut gate = Gate::new();
    (0..20).for_each(|tenths| assert_eq!(gate.look(at(tenths), came(10_000.0, 10_000.0), true), None));
    assert!((20..40).all(|tenths| gate.look(at(tenths), came(12_000.0, 10_000.0), true).is_none()));
}

#[test]
fn registers_need_no_trial() {
    let mut gate = Gate::new();
    let closed = gate.look(at(0), registers(100_000.0, 10_000.0), true).unwrap();
    let half = with_busy(0.5, Came { stopped: 50_000.0, ..registers(5000.0, 5000.0) });
    let share = gate.look(at(1), half, true).unwrap();
    assert!(share > closed && gate.admitted() == share, "{closed} {share}");
    // What the kernel drops now is retransmitted, and has to be handled as well.
    assert!(share - closed < 0.11, "{closed} {share}");
}

#[test]
fn backlog_closes_the_gate_by_half_at_most() {
    for (began_unread, share) in [(false, 0.109), (true, 0.5)] {
        let many = Came { began_unread, ..registers(100_000.0, 10_000.0) };
        let closed = Gate::new().look(at(0), many, true);
        assert!(near(closed, share), "{closed:?}");
    }
}

#[test]
fn used_up_quota_is_no_unused_time() {
    let mut gate = Gate::new();
    // A tenth of a processor, all of the time.
    let all = |worked: f64, busy: f64, came: Came| Came { worked, busy, ..came };
    (0..20).for_each(|tenths| {
        gate.look(at(tenths), all(0.1, 1.0, registers(50_000.0 * gate.admitted(), 10_000.0)), true);
    });
    let share = gate.admitted();
    assert!((0.15..0.25).contains(&share), "{share}");
    // The rest of each period passes before something arrives.
    assert_eq!(gate.look(at(20), all(0.097, 0.3, registers(9700.0, 9700.0)), true), None);
    assert!(gate.look(at(21), all(0.05, 0.3, registers(5000.0, 5000.0)), true).is_some());
}
