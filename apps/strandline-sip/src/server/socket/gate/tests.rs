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
fn it_closes_as_far_as_it_must_and_opens_again() {
    let mut gate = Gate::new();
    assert_eq!(gate.look(1e6, None), None);
    assert_eq!(gate.look(30_000.0, Some(10_000.0)), None);
    assert_eq!(gate.look(100_000.0, Some(10_000.0)), Some(0.2));
    // That was enough: it stays so.
    assert_eq!(gate.look(20_000.0, Some(10_000.0)), None);
    assert_eq!(gate.look(13_000.0, Some(10_000.0)), None);
    assert_eq!(gate.look(40_000.0, Some(10_000.0)), Some(0.1));
    let more = gate.look(10_000.0, Some(10_000.0)).unwrap();
    assert!((0.1..0.11).contains(&more), "{more}");
    assert!((0..10).any(|_| gate.look(1000.0, None) == Some(1.0)));
    assert_eq!(gate.look(1000.0, None), None);
}
