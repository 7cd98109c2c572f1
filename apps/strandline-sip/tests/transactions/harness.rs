//! Transactions with a clock that the test advances.

use bytes::BytesMut;
use strandline_sip::codec::{Essentials, Index, Message, Reply, StatusCode, WriteError};
use strandline_sip::transaction::{
    Arriving, BeginError, ClientId, Event, Flow, Outbox, Protocol, Received, ServerId, Time, Timings,
    TransactionLimits, Transactions, ViaBranch,
};

pub const PEER: &str = "192.0.2.9:5060";

pub struct World {
    pub transactions: Transactions,
    pub now: Time,
    pub out: Outbox,
}

pub fn flow(protocol: Protocol) -> Flow {
    let connection = u64::from(protocol.is_reliable()) * 7;
    Flow { connection, ..Flow::to(protocol, PEER.parse().unwrap()) }
}

/// A request as a peer sends it.
pub fn request(method: &str, branch: &str) -> String {
    request_with(method, branch, "5 ")
}

pub fn request_with(method: &str, branch: &str, cseq: &str) -> String {
    format!(
        "{method} sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP client.example.com;branch={branch}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=ft\r\nTo: <sip:b@example.com>\r\nCall-ID: cid\r\n\
         CSeq: {cseq}{method}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// A request of this server, in a client transaction.
pub fn own_request(method: &str, id: ClientId) -> String {
    let branch = ViaBranch { client: Some(id), routing_hash: 0 }.write(0);
    let branch = String::from_utf8(branch.to_vec()).unwrap();
    request(method, &format!("z9hG4bK{branch}"))
        .replace("client.example.com", "proxy.example.com")
        .replace("Max-Forwards", "Route: <sip:next.example.com;lr>\r\nMax-Forwards")
}

/// A response as the peer sends it.
pub fn response(request: &str, code: u16) -> String {
    let mut index = Index::new();
    let request = Message::parse(request.as_bytes(), &mut index).unwrap();
    let mut out = BytesMut::new();
    let reply = Reply { to_tag: Some(b"tt"), ..Reply::new(StatusCode::new(code).unwrap()) };
    reply.write(&request, &mut out).finish(b"").unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

impl World {
    pub fn new() -> Self {
        Self::with_limit(1000)
    }

    pub fn with_limit(max: usize) -> Self {
        let limits = TransactionLimits { servers_max: max, clients_max: max, ..TransactionLimits::default() };
        let transactions = Transactions::new(Timings::default(), limits, [7; 32]);
        Self { transactions, now: Time::ZERO, out: Outbox::new() }
    }

    /// The first lines of the messages sent since the last call.
    pub fn sent(&mut self) -> Vec<String> {
        self.sent_whole().iter().map(|message| message.lines().next().unwrap().to_owned()).collect()
    }

    pub fn sent_whole(&mut self) -> Vec<String> {
        let all = self.out.iter().map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()).collect();
        self.out.clear();
        all
    }

    /// Advances the time, and returns when messages were sent, in milliseconds since the start.
    pub fn run_until(&mut self, millis: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(deadline) = self.transactions.next_deadline().filter(|at| at.as_millis() <= millis) {
            self.now = deadline;
            self.transactions.handle_timeout(deadline, &mut self.out);
            times.extend(self.out.iter().map(|_| deadline.as_millis()));
            self.out.clear();
        }
        self.now = Time::from_millis(millis);
        times
    }

    /// The events, without identifiers.
    pub fn events(&mut self) -> Vec<&'static str> {
        std::iter::from_fn(|| self.transactions.poll_event())
            .map(|event| match event {
                Event::TimedOut { .. } => "timed out",
                Event::RingingTooLong { .. } => "ringing too long",
                Event::Over { .. } => "over",
                Event::NoAck { .. } => "no ack",
            })
            .collect()
    }

    fn parsed<R>(
        &mut self,
        text: &str,
        then: impl FnOnce(&mut Self, &Message<'_>, &Essentials<'_>) -> R,
    ) -> R {
        let mut index = Index::new();
        let message = Message::parse(text.as_bytes(), &mut index).unwrap();
        let essentials = message.essentials().unwrap();
        then(self, &message, &essentials)
    }

    pub fn receive(&mut self, text: &str) -> Received {
        self.parsed(text, |world, message, essentials| {
            world.transactions.receive_request(world.now, message, essentials, &mut world.out)
        })
    }

    pub fn arriving(&mut self, text: &str) -> Arriving {
        match self.receive(text) {
            Received::New(arriving) => arriving,
            other => panic!("{other:?}"),
        }
    }

    /// Begins a server transaction.
    pub fn server(&mut self, text: &str, protocol: Protocol) -> ServerId {
        let arriving = self.arriving(text);
        self.transactions.begin_server(arriving, flow(protocol), None, 0).unwrap()
    }

    pub fn respond(&mut self, id: ServerId, request: &str, code: u16) -> bool {
        let text = response(request, code);
        let code = StatusCode::new(code).unwrap();
        let write = |out: &mut BytesMut| {
            out.extend_from_slice(text.as_bytes());
            Ok::<(), WriteError>(())
        };
        self.transactions.respond(self.now, id, code, &mut self.out, write).unwrap()
    }

    /// Begins a server transaction for a request that ends at this server. `None` if the request was merged.
    pub fn ending(&mut self, text: &str) -> Option<ServerId> {
        let arriving = self.arriving(text);
        let begun = self.parsed(text, |world, _, essentials| {
            world.transactions.begin_server(arriving, flow(Protocol::Udp), Some(essentials), 0)
        });
        match begun {
            Ok(id) => Some(id),
            Err(BeginError::Merged) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Prepares the 100 response to an INVITE.
    pub fn trying(&mut self, id: ServerId, request: &str) {
        self.parsed(request, |world, message, _| world.transactions.trying(world.now, id, message));
    }

    /// Begins a client transaction, and returns its request.
    pub fn client(&mut self, method: &str, protocol: Protocol) -> (ClientId, String) {
        let id = self.transactions.reserve_client(method == "INVITE", flow(protocol), 42).unwrap();
        let request = own_request(method, id);
        self.out.push(flow(protocol), Some(id), request.as_bytes());
        self.transactions.start_client(self.now, id, request.as_bytes());
        (id, request)
    }

    /// Receives a response, and returns whether it is passed on.
    pub fn answer(&mut self, text: &str) -> bool {
        self.parsed(text, |world, message, essentials| {
            let found = world.transactions.receive_response(world.now, message, essentials, &mut world.out);
            found.is_some_and(|(_, user)| user == 42)
        })
    }

    /// Returns true if no transaction and no timer is left.
    pub fn is_empty(&mut self) -> bool {
        (self.transactions.counts(), self.transactions.kept_bytes()) == ((0, 0), 0)
            && self.transactions.next_deadline().is_none()
    }
}
