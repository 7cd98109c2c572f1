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

/// All of it for the first time.
fn came(first: f64) -> Came {
    Came { first, all: first }
}

#[test]
fn it_closes_as_far_as_it_must_and_stays_so() {
    let mut gate = Gate::new();
    let can = Some(10_000.0);
    assert_eq!(gate.look(at(0), came(1e6), None), None);
    assert_eq!(gate.look(at(1), came(30_000.0), can), None);
    assert_eq!(gate.look(at(2), came(100_000.0), can), Some(0.15));
    assert_eq!(gate.look(at(3), came(15_000.0), can), None);
    assert_eq!(gate.look(at(4), came(13_000.0), can), None);
    // Held up for a moment, it isn't closed, and not opened afterwards.
    assert_eq!(gate.look(at(5), came(15_000.0), Some(3_000.0)), None);
    assert_eq!(gate.look(at(6), came(15_000.0), can), None);
    // Repetitions are read as well.
    assert_eq!(gate.look(at(7), Came { first: 15_000.0, all: 60_000.0 }, can), None);
    assert_eq!(gate.look(at(8), Came { first: 18_000.0, all: 60_000.0 }, can), Some(0.125));
    assert_eq!(gate.admitted(), 0.125);
}

#[test]
fn more_are_let_in_on_trial_and_at_once_when_nobody_is_refused() {
    let mut gate = Gate::new();
    let can = Some(10_000.0);
    assert_eq!(gate.look(at(0), came(75_000.0), can), Some(0.2));
    // A pause between two bursts is none.
    assert!((1..5).all(|tenths| gate.look(at(tenths), came(100.0), can).is_none()));
    assert_eq!(gate.look(at(5), came(15_000.0), can), None);
    assert!((6..10).all(|tenths| gate.look(at(tenths), came(10_000.0), can).is_none()));
    let open = gate.look(at(10), came(10_000.0), can).unwrap();
    assert!((open - 0.3).abs() < 1e-9 && gate.admitted() == 0.2, "{open}");
    // Those on trial aren't counted, and the trial isn't begun again.
    assert_eq!(gate.look(at(11), came(10_000.0), can), None);
    assert_eq!((gate.look(at(49), came(10_000.0), can), gate.admitted()), (None, 0.2));
    assert_eq!((gate.look(at(50), came(15_000.0), can), gate.admitted()), (None, open));
    // Little comes: all may, when the trial is over, or once nobody is refused.
    assert!((51..55).all(|tenths| gate.look(at(tenths), came(1000.0), can).is_none()));
    assert_eq!((gate.look(at(55), came(1000.0), can), gate.admitted()), (Some(1.0), open));
    assert_eq!((gate.look(at(56), came(1000.0), None), gate.admitted()), (None, 1.0));
}
