//! A service at 198.51.100.1 for the domain example.com, and phones.

use bytes::BytesMut;
use strandline_sip::bindings::Journal;
use strandline_sip::codec::{Index, Message, Reply, StatusCode};
use strandline_sip::service::{Advertised, Relay, Seeds, Service, Settings};
use strandline_sip::transaction::{Flow, Protocol, Time};

pub struct World {
    pub service: Service,
    pub now: Time,
}

/// A phone, given by its flow.
#[derive(Clone, Copy)]
pub struct Phone(pub Flow);

/// A message sent by the service.
#[derive(Debug, Clone)]
pub struct Sent {
    pub flow: Flow,
    pub text: String,
}

pub fn settings() -> Settings {
    let advertised = |protocol| Advertised::new(protocol, "198.51.100.1".to_owned(), 5060);
    Settings {
        domains: vec!["example.com".to_owned()],
        advertised: Protocol::ALL.map(advertised).to_vec(),
        ..Settings::default()
    }
}

impl Phone {
    pub fn udp(address: &str) -> Self {
        Self(Flow::to(Protocol::Udp, address.parse().unwrap()))
    }

    pub fn tcp(address: &str, connection: u64) -> Self {
        Self(Flow { connection, ..Flow::to(Protocol::Tcp, address.parse().unwrap()) })
    }

    /// The address as it stands in a URI, without a zone.
    fn address(&self) -> String {
        match self.0.peer {
            std::net::SocketAddr::V4(peer) => peer.to_string(),
            std::net::SocketAddr::V6(peer) => format!("[{}]:{}", peer.ip(), peer.port()),
        }
    }

    fn via(&self, branch: &str) -> String {
        let protocol = self.0.protocol.in_uri().to_uppercase();
        format!("Via: SIP/2.0/{protocol} {};branch=z9hG4bK{branch};rport\r\n", self.address())
    }

    pub fn contact(&self, user: &str) -> String {
        match self.0.protocol {
            Protocol::Udp => format!("<sip:{user}@{}>", self.address()),
            protocol => format!("<sip:{user}@{};transport={}>", self.address(), protocol.in_uri()),
        }
    }

    pub fn register(&self, user: &str, cseq: u32, more: &str) -> String {
        format!(
            "REGISTER sip:example.com SIP/2.0\r\n{}From: <sip:{user}@example.com>;tag=r\r\n\
             To: <sip:{user}@example.com>\r\nCall-ID: reg-{user}\r\nCSeq: {cseq} REGISTER\r\n{more}\
             Content-Length: 0\r\n\r\n",
            self.via(&format!("r{user}{cseq}"))
        )
    }

    pub fn invite(&self, to: &str, branch: &str) -> String {
        self.request("INVITE", &format!("sip:{to}@example.com"), branch, "")
    }

    pub fn request(&self, method: &str, uri: &str, branch: &str, more: &str) -> String {
        format!(
            "{method} {uri} SIP/2.0\r\n{}Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=alice\r\n\
             To: <{uri}>\r\nCall-ID: call\r\nCSeq: 1 {method}\r\nContact: {}\r\n{more}Content-Length: 0\r\n\r\n",
            self.via(branch),
            self.contact("alice"),
        )
    }
}

/// The response of a phone to a request.
pub fn response(request: &str, code: u16, tag: &str) -> String {
    let mut index = Index::new();
    let request = Message::parse(request.as_bytes(), &mut index).unwrap();
    let mut out = BytesMut::new();
    let code = StatusCode::new(code).unwrap();
    let reply = Reply { to_tag: Some(tag.as_bytes()), record_routes: true, ..Reply::new(code) };
    reply.write(&request, &mut out).finish(b"").unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

/// The ACK or BYE that a caller sends after receiving a 2xx.
pub fn in_dialog(
    method: &str,
    ok: &str,
    target: &str,
    phone: &Phone,
    cseq: u32,
    from_caller: bool,
) -> String {
    let line = |name: &str| ok.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let mut routes: Vec<String> =
        ok.lines().filter_map(|line| line.strip_prefix("Record-Route: ")).map(str::to_owned).collect();
    let (mut from, mut to) = (line("From: "), line("To: "));
    if from_caller {
        routes.reverse();
    } else {
        std::mem::swap(&mut from, &mut to);
    }
    let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
    format!(
        "{method} {target} SIP/2.0\r\n{}Max-Forwards: 70\r\n{routes}From: {from}\r\nTo: {to}\r\nCall-ID: call\r\n\
         CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
        phone.via(&format!("{method}{cseq}")),
    )
}

impl Sent {
    pub fn is_trying(&self) -> bool {
        self.first_line() == "SIP/2.0 100 Trying"
    }

    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap()
    }

    pub fn line(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn lines(&self, name: &str) -> Vec<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(settings())
    }

    /// A service that relays requests to other hosts.
    pub fn relaying() -> Self {
        Self::with(Settings { relay: Relay { open: true, from: Vec::new() }, ..settings() })
    }

    /// A service that records its changes in a journal.
    pub fn journaled() -> Self {
        let mut world = Self::new();
        world.service.output_mut().journal = Journal::default();
        world
    }

    pub fn with(settings: Settings) -> Self {
        let seeds = Seeds { tokens: [4; 16], ..Seeds::repeated(3) };
        Self { service: Service::new(settings, &seeds, 1_700_000_000), now: Time::ZERO }
    }

    pub fn sent(&mut self) -> Vec<Sent> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let sent = self
            .service
            .output()
            .out
            .iter()
            .map(|(item, bytes)| Sent { flow: item.flow, text: text(bytes) })
            .collect();
        self.service.output_mut().out.clear();
        sent
    }

    /// Receives a message, and returns what is sent as a result.
    pub fn receive(&mut self, phone: &Phone, text: &str) -> Vec<Sent> {
        self.service.handle_message(self.now, phone.0, text.as_bytes());
        self.sent()
    }

    /// Receives a message, and returns the only message sent as a result.
    pub fn one(&mut self, phone: &Phone, text: &str) -> Sent {
        let mut sent = self.receive(phone, text);
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    /// Receives an INVITE, and returns what is forwarded. Checks that no 100 is sent yet.
    pub fn invite(&mut self, phone: &Phone, text: &str) -> Vec<Sent> {
        let sent = self.receive(phone, text);
        assert!(!sent.iter().any(Sent::is_trying), "{sent:#?}");
        sent
    }

    pub fn register(&mut self, phone: &Phone, user: &str) {
        let contact = format!("Contact: {}\r\n", phone.contact(user));
        self.register_with(phone, user, &contact);
    }

    pub fn register_with(&mut self, phone: &Phone, user: &str, more: &str) {
        if phone.0.connection != 0 {
            self.service.connection_opened(phone.0.connection);
        }
        let ok = self.one(phone, &phone.register(user, 1, more));
        assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
    }

    /// Advances the time, and returns what is sent, except 100 responses to INVITEs without another response
    /// after 200 ms.
    pub fn run_until(&mut self, millis: u64) -> Vec<Sent> {
        let mut sent = self.run_and_try_until(millis);
        sent.retain(|one| !one.is_trying());
        sent
    }

    /// Advances the time, and returns everything that is sent.
    pub fn run_and_try_until(&mut self, millis: u64) -> Vec<Sent> {
        while let Some(deadline) = self.service.next_deadline().filter(|at| at.as_millis() <= millis) {
            self.now = deadline;
            self.service.handle_timeout(deadline);
        }
        self.now = Time::from_millis(millis);
        self.sent()
    }
}
