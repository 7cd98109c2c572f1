use super::*;

/// Sends trains over loopback, where they arrive at once.
struct Peer {
    socket: UdpSocket,
    to: SocketAddr,
    sending: Sending,
    made: u32,
}

impl Peer {
    fn new(udp: &Udp) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { socket, to: udp.local_addr().unwrap(), sending: Sending::default(), made: 0 }
    }

    /// Sends a train with a message of each method. The messages have the same length, except that the last may
    /// be shorter.
    fn send(&mut self, methods: &[&str]) {
        let messages = methods.iter().map(|method| {
            self.made += 1;
            format!(
                "{method} sip:a@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{0:08};rport\r\n\
                 From: <sip:a@example.com>;tag=7\r\nTo: <sip:b@example.com>\r\nCall-ID: {0:08}@192.0.2.1\r\n\r\n",
                self.made
            )
        });
        let messages: Vec<String> = messages.collect();
        let datagrams = messages.iter().map(|message| (Some(self.to), message.as_bytes()));
        self.sending.send(&self.socket, datagrams);
    }
}

/// The first lines of all messages that are there.
fn received(udp: &Udp) -> Vec<String> {
    let mut received = Vec::new();
    let take = || {
        udp.take(|_, _, bytes, _| {
            let text = String::from_utf8_lossy(bytes);
            received.push(text.split_once(' ').unwrap().0.to_owned());
            true
        })
    };
    std::iter::repeat_with(take).find(|(_, more)| !more);
    received
}

/// A socket after a second with such trains.
fn after_a_second(methods: &[&str]) -> (Rc<Udp>, Peer) {
    let udp = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut peer = Peer::new(&udp);
    for tenths in 1..=10 {
        for _ in 0..20 {
            peer.send(methods);
        }
        assert_eq!(received(&udp).len(), 20 * methods.len());
        udp.look_at_trains(Duration::from_millis(100 * tenths));
    }
    (udp, peer)
}

#[test]
fn trains_that_wait_at_closing_are_whole() {
    let (udp, mut peer) = after_a_second(&["BYE"; 5]);
    for _ in 0..100 {
        peer.send(&["BYE"; 5]);
    }
    udp.let_through(0.5).unwrap();
    assert_eq!(received(&udp).len(), 500);
    // From now on they come one by one.
    peer.send(&["BYE"; 5]);
    assert_eq!(received(&udp), ["BYE"; 5]);
    assert!(!udp.coalescing.get().is_on);
    udp.let_through(1.0).unwrap();
    assert!(udp.coalescing.get().is_on);
}

#[test]
fn dropped_trains_of_registers_are_counted() {
    let (udp, mut peer) = after_a_second(&["REGISTER"; 4]);
    udp.let_through(0.5).unwrap();
    assert_eq!(udp.stopped(), 0);
    let mut passed = 0;
    for _ in 0..200 {
        peer.send(&["REGISTER"; 4]);
        let count = received(&udp).len();
        assert!([0, 4].contains(&count), "{count} of 4");
        passed += count;
    }
    assert!((240..560).contains(&passed), "{passed} of 800");
    assert_eq!(udp.stopped(), 800 - passed as u64);
}

#[test]
fn no_call_is_dropped_with_registers() {
    // An edge proxy with many phones.
    let (udp, mut peer) = after_a_second(&[&["REGISTER"; 30][..], &["ACK"]].concat());
    udp.let_through(0.01).unwrap();
    assert_eq!(received(&udp), Vec::<String>::new());
    for _ in 0..100 {
        peer.send(&["REGISTER", "ACK"]);
    }
    let acks = received(&udp).into_iter().filter(|method| method == "ACK").count();
    assert_eq!(acks, 100);
}

#[test]
fn calls_among_registers_end_trains() {
    let (udp, mut peer) = after_a_second(&["REGISTER"; 4]);
    udp.let_through(0.9).unwrap();
    // One of these passes at least.
    for _ in 0..100 {
        peer.send(&["REGISTER", "ACK"]);
    }
    assert!(received(&udp).len() > 100);
    udp.look_at_trains(Duration::from_millis(1100));
    assert_eq!(received(&udp), Vec::<String>::new());
    for _ in 0..100 {
        peer.send(&["REGISTER", "ACK"]);
    }
    let acks = received(&udp).into_iter().filter(|method| method == "ACK").count();
    assert_eq!(acks, 100);
}
