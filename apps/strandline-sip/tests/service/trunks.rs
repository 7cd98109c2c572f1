//! A proxy of another domain that sends many calls over UDP from one unproven address. Traffic to it is
//! limited until it has acknowledged one call, which must not harm any call.

use crate::harness::{Phone, Sent, World, in_dialog, response};

const CALLS: u64 = 2000;
/// Milliseconds between calls: 200 calls per second.
const EVERY_MS: u64 = 5;
/// How long bob's phone rings, in milliseconds.
const RINGS_MS: u64 = 5000;
/// Retransmission times of an unanswered INVITE and of an unacknowledged 200, in milliseconds.
const AGAIN_MS: [u64; 6] = [500, 1500, 3500, 7500, 11_500, 15_500];

const BODY: &str = "v=0\r\no=- 1 1 IN IP4 203.0.113.7\r\ns=-\r\nc=IN IP4 203.0.113.7\r\nt=0 0\r\n\
    m=audio 40000 RTP/AVP 0 8 101\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=sendrecv\r\n";

#[derive(Default)]
struct Call {
    invite: String,
    /// True once the caller has received any response.
    heard: bool,
    rang_ms: Option<u64>,
    taken_ms: Option<u64>,
    /// The INVITE that bob received.
    at_bob: Option<String>,
    acknowledged: bool,
}

struct Trunk {
    world: World,
    calls: Vec<Call>,
    body: bool,
}

fn proxy() -> Phone {
    Phone::udp("203.0.113.7:5060")
}

fn bob() -> Phone {
    Phone::udp("192.0.2.2:5060")
}

impl Trunk {
    fn with_body(&self, text: String) -> String {
        let body = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
        if self.body { text.replace("Content-Length: 0\r\n\r\n", &body) } else { text }
    }

    fn begin(&mut self) {
        let number = self.calls.len();
        let invite = proxy().invite("bob", &format!("c{number}"));
        let invite = invite.replace("Call-ID: call", &format!("Call-ID: {number}"));
        let invite = self.with_body(invite.replace("alice@example.com", "alice@elsewhere.example"));
        self.calls.push(Call { invite: invite.clone(), ..Call::default() });
        let sent = self.world.receive(&proxy(), &invite);
        self.deliver(sent);
    }

    fn deliver(&mut self, mut sent: Vec<Sent>) {
        while !sent.is_empty() {
            for one in core::mem::take(&mut sent) {
                let number: usize = one.line("Call-ID").unwrap().parse().unwrap();
                sent.extend(if one.flow == bob().0 {
                    self.at_bob(number, &one)
                } else {
                    assert_eq!(one.flow, proxy().0);
                    self.at_proxy(number, &one)
                });
            }
        }
    }

    fn at_bob(&mut self, number: usize, one: &Sent) -> Vec<Sent> {
        let call = &mut self.calls[number];
        if one.first_line().starts_with("ACK ") {
            call.acknowledged = true;
            return Vec::new();
        }
        assert!(one.first_line().starts_with("INVITE "), "{}", one.text);
        if call.at_bob.is_some() {
            return Vec::new();
        }
        call.at_bob = Some(one.text.clone());
        self.world.receive(&bob(), &response(&one.text, 180, &format!("bob{number}")))
    }

    fn at_proxy(&mut self, number: usize, one: &Sent) -> Vec<Sent> {
        let now_ms = self.world.now.as_millis();
        let call = &mut self.calls[number];
        call.heard = true;
        match one.first_line() {
            "SIP/2.0 180 Ringing" => call.rang_ms = call.rang_ms.or(Some(now_ms)),
            "SIP/2.0 200 OK" => {
                call.taken_ms = call.taken_ms.or(Some(now_ms));
                let ack = in_dialog("ACK", &one.text, "sip:bob@192.0.2.2:5060", &proxy(), 1, true);
                let ack = ack.replace("Call-ID: call", &format!("Call-ID: {number}"));
                return self.world.receive(&proxy(), &ack);
            }
            line => assert_eq!(line, "SIP/2.0 100 Trying"),
        }
        Vec::new()
    }

    fn is_due(since_ms: u64, now_ms: u64) -> bool {
        now_ms >= since_ms && (now_ms == since_ms || AGAIN_MS.contains(&(now_ms - since_ms)))
    }

    /// The actions of the callers and bob at this time.
    fn step(&mut self, now_ms: u64) {
        let sent = self.world.run_and_try_until(now_ms);
        self.deliver(sent);
        for number in 0..self.calls.len() {
            let (call, begun_ms) = (&self.calls[number], number as u64 * EVERY_MS);
            if !call.heard && now_ms > begun_ms && Self::is_due(begun_ms, now_ms) {
                let invite = call.invite.clone();
                let sent = self.world.receive(&proxy(), &invite);
                self.deliver(sent);
            }
            let call = &self.calls[number];
            if let Some(invite) = &call.at_bob
                && !call.acknowledged
                && Self::is_due(begun_ms + RINGS_MS, now_ms)
            {
                let ok = self.with_body(response(invite, 200, &format!("bob{number}")));
                let sent = self.world.receive(&bob(), &ok);
                self.deliver(sent);
            }
        }
    }
}

#[test]
fn calls_from_a_trunk_are_never_late() {
    for body in [true, false] {
        let mut trunk = Trunk { world: World::new(), calls: Vec::new(), body };
        trunk.world.register(&bob(), "bob");
        for step in 0..CALLS + (RINGS_MS + 20_000) / EVERY_MS {
            let now_ms = step * EVERY_MS;
            trunk.step(now_ms);
            if step < CALLS {
                trunk.begin();
            }
        }
        let begun = |number: usize| number as u64 * EVERY_MS;
        let late = |(number, call): &(usize, &Call)| call.taken_ms != Some(begun(*number) + RINGS_MS);
        let lost = trunk.calls.iter().filter(|call| call.taken_ms.is_none() || !call.acknowledged).count();
        assert_eq!(lost, 0, "body: {body}");
        assert_eq!(trunk.calls.iter().enumerate().filter(late).count(), 0, "body: {body}");
        // Calls with a body are told at once that bob is ringing. Calls without one are told so only once a
        // call was answered.
        let quiet = |(number, call): &(usize, &Call)| call.rang_ms != Some(begun(*number));
        let first = if body { 0 } else { (RINGS_MS / EVERY_MS) as usize + 1 };
        assert_eq!(trunk.calls.iter().enumerate().skip(first).filter(quiet).count(), 0, "body: {body}");
    }
}
