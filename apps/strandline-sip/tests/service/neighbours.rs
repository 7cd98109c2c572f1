//! Downstream neighbours that report their capacity, for the tests of RFC 7339 and RFC 7415.

use strandline_sip::service::{Directory, End, Offer, Relay, Settings};

use crate::harness::{Phone, Sent, World, response, settings};

/// The parameters in this server's Via.
pub const ASKED: &str = ";oc;oc-algo=\"loss,rate\"";

pub fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn end(phone: &Phone) -> End {
    End { flow: phone.0, host: 0 }
}

/// A neighbour at this port.
pub fn at(port: u16) -> Phone {
    Phone::udp(&format!("203.0.113.1:{port}"))
}

pub struct Neighbours {
    pub world: World,
    count: u32,
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Fate {
    Sent(Sent),
    /// The service rejected the request itself.
    Withheld(Sent),
}

impl Neighbours {
    pub fn new() -> Self {
        let relay = Relay { open: true, from: Vec::new() };
        let directory = Directory { offer: Offer::LossAndRate, ..Directory::default() };
        Self { world: World::with(Settings { relay, names_max: 100, directory, ..settings() }), count: 0 }
    }

    /// Sends a request to a neighbour, and returns its outcome.
    pub fn send(&mut self, port: u16, more: &str) -> Fate {
        self.count += 1;
        let branch = format!("n{}", self.count);
        let uri = format!("sip:bob@203.0.113.1:{port}");
        let text = alice().request("MESSAGE", &uri, &branch, more);
        let text = text.replace("Call-ID: call", &format!("Call-ID: {branch}"));
        let text = match more.contains("X-Dialog") {
            true => {
                let mut token = Vec::new();
                self.world.service.setup().tokens().write(
                    &end(&alice()),
                    &end(&at(port)),
                    b"alice",
                    &mut token,
                );
                let route =
                    format!("Route: <sip:{}@198.51.100.1:5060;lr>", String::from_utf8(token).unwrap());
                text.replace(&format!("To: <{uri}>"), &format!("{route}\r\nTo: <{uri}>;tag=bob"))
            }
            false => text,
        };
        let sent = self.world.one(&alice(), &text);
        if sent.first_line().starts_with("SIP/2.0") { Fate::Withheld(sent) } else { Fate::Sent(sent) }
    }

    pub fn is_sent(&mut self, port: u16, more: &str) -> bool {
        matches!(self.send(port, more), Fate::Sent(_))
    }

    /// A neighbour responds to a request, and reports its capacity.
    pub fn answer(&mut self, request: &Sent, says: &str) {
        assert!(request.text.contains(ASKED), "{}", request.text);
        let ok = response(&request.text, 200, "b").replacen(ASKED, says, 1);
        self.world.receive(&Phone(request.flow), &ok);
    }

    /// Sends a request and has the neighbour report its capacity.
    pub fn told(&mut self, port: u16, says: &str) {
        loop {
            // An emergency request passes unless nothing does.
            if let Fate::Sent(request) = self.send(port, "Priority: emergency\r\n") {
                return self.answer(&request, says);
            }
        }
    }

    /// How many of 1,000 simultaneous requests are sent.
    pub fn sent_of_1000(&mut self, more: &str) -> usize {
        (0..1000).filter(|_| self.is_sent(5060, more)).count()
    }

    pub fn at_millis(&mut self, millis: u64) {
        self.world.run_until(millis);
    }
}
