use std::net::UdpSocket;
use std::time::Duration;

use super::*;

/// Two sockets, and how much one lets through of what the other sends.
struct Pair {
    from: UdpSocket,
    to: UdpSocket,
}

impl Pair {
    fn new(share: f64) -> Self {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket2::SockRef::from(&to).attach_filter(&filter(share)).unwrap();
        Self { from, to }
    }

    /// Which of these come through. On the loopback they are there when they were sent.
    fn through(&self, messages: &[String]) -> Vec<String> {
        let mut through = Vec::new();
        let mut room = [0; 2000];
        for message in messages {
            self.from.send(message.as_bytes()).unwrap();
            // Too short to be dropped: it tells where the others end.
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
fn a_closed_gate_stops_what_begins_and_nothing_else() {
    let pair = Pair::new(0.0);
    let closed = [
        "INVITE sip:b@example.com",
        "REGISTER sip:example.com",
        "MESSAGE sip:b@example.com",
        "OPTIONS sip:b",
    ];
    let stopped: Vec<String> = closed.iter().map(|line| request(line, 1)).collect();
    assert_eq!(pair.through(&stopped), Vec::<String>::new());
    // The kernel tells how many those were.
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
fn a_share_comes_through_and_the_same_ones_again() {
    let messages: Vec<String> = (0..2000).map(|number| request("INVITE sip:b@example.com", number)).collect();
    let pair = Pair::new(0.25);
    let through = pair.through(&messages);
    assert!((400..600).contains(&through.len()), "{} of 2000", through.len());
    assert_eq!(pair.through(&messages), through);
    assert_eq!(pair.through(&through), through);
    // More are those and others.
    let more = Pair::new(0.5).through(&messages);
    assert!((900..1100).contains(&more.len()) && through.iter().all(|message| more.contains(message)));
    assert_eq!(Pair::new(1.0).through(&messages).len(), 2000);
}

#[test]
fn the_mark_of_a_message_says_what_the_kernel_does() {
    let mut messages: Vec<String> =
        (0..500).map(|number| request("REGISTER sip:example.com", number)).collect();
    // Of every length.
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

/// All of it for the first time, and so many were handled.
fn came(first: f64, handled: f64) -> Came {
    let elapsed = Duration::from_millis(100);
    Came { elapsed, first, all: first, stopped: 0.0, handled, refused: 0.0 }
}

fn near(share: Option<f64>, expected: f64) -> bool {
    share.is_some_and(|share| (share / expected - 1.0).abs() < 0.03)
}

#[test]
fn it_closes_as_far_as_it_must_and_stays_so() {
    let mut gate = Gate::new();
    let done = |first| came(first, 10_000.0);
    assert_eq!(gate.look(at(0), done(1e6), false), None);
    assert_eq!(gate.look(at(1), done(20_000.0), true), None);
    // Not far, as long as it isn't known well what can be handled.
    assert!(near(gate.look(at(2), done(100_000.0), true), 0.2));
    assert!((3..12).all(|tenths| gate.look(at(tenths), done(20_500.0), true).is_none()));
    assert!(near(gate.look(at(12), done(20_500.0), true), 0.112));
    assert_eq!(gate.look(at(13), done(11_500.0), true), None);
    // Held up for a moment, it isn't closed, and not opened afterwards.
    assert_eq!(gate.look(at(14), came(11_500.0, 1000.0), true), None);
    assert_eq!(gate.look(at(15), done(11_500.0), true), None);
    // Repetitions are read as well, and a burst is none.
    assert_eq!(gate.look(at(16), Came { all: 50_000.0, ..done(11_500.0) }, true), None);
    let many = Came { all: 50_000.0, ..done(20_000.0) };
    assert!((17..19).all(|tenths| gate.look(at(tenths), many, true).is_none()));
    assert_eq!(gate.look(at(19), done(11_500.0), true), None);
    assert!((20..22).all(|tenths| gate.look(at(tenths), many, true).is_none()));
    let share = gate.look(at(22), many, true);
    assert!(near(share, 0.062), "{share:?}");
    assert_eq!(Some(gate.admitted()), share);
}

#[test]
fn who_only_reads_is_known_to_be_able_to_do_more() {
    let busy = Came { refused: 80_000.0, ..came(85_000.0, 5000.0) };
    let share = Gate::new().look(at(0), busy, true);
    assert!(near(share, 18_000.0 / 85_000.0), "{share:?}");
}

#[test]
fn what_was_handled_before_does_not_count_when_much_comes() {
    for before in [10.0, 50_000.0] {
        let mut gate = Gate::new();
        (0..100).for_each(|tenths| assert_eq!(gate.look(at(tenths), came(before, before), false), None));
        let share = gate.look(at(100), came(100_000.0, 10_000.0), true);
        assert!(near(share, 0.2), "{share:?}");
    }
}

#[test]
fn what_was_refused_while_nothing_else_came_does_not_count_either() {
    let mut gate = Gate::new();
    assert!(near(gate.look(at(0), came(100_000.0, 10_000.0), true), 0.2));
    // Those who were refused ask again, for eight seconds.
    let again = Came { all: 8000.0, refused: 8000.0, ..came(0.0, 0.0) };
    for tenths in 1..80 {
        gate.look(at(tenths), again, true);
    }
    let admitted = gate.admitted();
    let share = gate.look(at(80), came(100_000.0 * admitted, 10_000.0), true);
    assert!(near(share, 0.2), "{share:?} of {admitted}");
}

#[test]
fn more_are_let_in_on_trial_and_at_once_when_nobody_is_refused() {
    let mut gate = Gate::new();
    let done = |first| came(first, 10_000.0);
    assert!(near(gate.look(at(0), done(100_000.0), true), 0.2));
    assert!((1..10).all(|tenths| gate.look(at(tenths), done(11_500.0), true).is_none()));
    // A pause between two bursts is none.
    assert!((10..14).all(|tenths| gate.look(at(tenths), done(100.0), true).is_none()));
    assert_eq!(gate.look(at(14), done(11_500.0), true), None);
    assert!((15..19).all(|tenths| gate.look(at(tenths), done(6250.0), true).is_none()));
    let open = gate.look(at(19), done(6250.0), true);
    assert!(near(open, 0.368) && near(Some(gate.admitted()), 0.2), "{open:?}");
    // Those on trial aren't counted, and the trial isn't begun again.
    assert_eq!(gate.look(at(20), done(6250.0), true), None);
    assert!(gate.look(at(58), done(6250.0), true).is_none() && near(Some(gate.admitted()), 0.2));
    assert!(gate.look(at(59), done(11_500.0), true).is_none() && near(Some(gate.admitted()), 0.368));
    // Nobody is refused, and many are stopped: the load is still there.
    let many = Came { stopped: 50_000.0, ..done(11_500.0) };
    assert!((60..65).all(|tenths| gate.look(at(tenths), many, false).is_none()));
    // Few are: all may.
    let (few, mut tenths) = (Came { stopped: 1000.0, ..done(2000.0) }, 65);
    while let Some(share) = gate.look(at(tenths), few, false) {
        assert_eq!(gate.admitted(), share);
        tenths += 1;
    }
    assert!(gate.admitted() == 1.0 && tenths < 75, "{tenths}");
}
