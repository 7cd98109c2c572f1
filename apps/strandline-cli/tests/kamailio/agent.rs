//! A user agent over UDP or TCP that makes and accepts calls, step by step.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(30);

enum Wire {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// A user agent and the proxy that it sends all requests to.
pub struct Agent {
    pub name: &'static str,
    wire: Wire,
    proxy: SocketAddr,
    read: Vec<u8>,
    branches: u32,
    /// Requests that arrived before the response that was waited for.
    early: VecDeque<String>,
}

/// One side of a dialog.
#[derive(Clone)]
pub struct Dialog {
    call_id: String,
    local: String,
    remote: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
}

pub fn lines<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    let head = message.split("\r\n\r\n").next().unwrap();
    head.split("\r\n").filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

fn line<'a>(message: &'a str, name: &str) -> &'a str {
    lines(message, name).first().copied().unwrap_or_else(|| panic!("no {name} in {message}"))
}

/// Returns the Record-Routes, the topmost first.
fn record_routes(message: &str) -> Vec<String> {
    let values = lines(message, "Record-Route").into_iter().flat_map(|line| line.split(','));
    values.map(|value| value.trim().to_owned()).collect()
}

fn contact_of(message: &str) -> String {
    let contact = line(message, "Contact");
    contact.split(['<', '>']).nth(1).unwrap_or(contact).to_owned()
}

impl Agent {
    /// Creates an agent; `protocol` is `udp` or `tcp`.
    pub fn new(name: &'static str, protocol: &str, proxy: SocketAddr) -> Self {
        let wire = match protocol {
            "udp" => Wire::Udp(UdpSocket::bind("127.0.0.1:0").unwrap()),
            _ => Wire::Tcp(TcpStream::connect(proxy).unwrap()),
        };
        match &wire {
            Wire::Udp(socket) => socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap(),
            Wire::Tcp(stream) => stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap(),
        }
        Self { name, wire, proxy, read: Vec::new(), branches: 0, early: VecDeque::new() }
    }

    pub fn address(&self) -> SocketAddr {
        match &self.wire {
            Wire::Udp(socket) => socket.local_addr().unwrap(),
            Wire::Tcp(stream) => stream.local_addr().unwrap(),
        }
    }

    fn contact(&self) -> String {
        let transport = if matches!(self.wire, Wire::Tcp(_)) { ";transport=tcp" } else { "" };
        format!("<sip:{}@{}{transport}>", self.name, self.address())
    }

    /// Sends to the proxy; over UDP, to the source of the last message.
    fn send(&mut self, text: &str) {
        match &mut self.wire {
            Wire::Udp(socket) => assert!(socket.send_to(text.as_bytes(), self.proxy).is_ok(), "{text}"),
            Wire::Tcp(stream) => stream.write_all(text.as_bytes()).unwrap(),
        }
    }

    /// Takes one complete message received over TCP.
    fn take(&mut self) -> Option<String> {
        let start = self.read.iter().position(|byte| !b"\r\n".contains(byte))?;
        let text = String::from_utf8_lossy(&self.read[start..]).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let len = line(&format!("{head}\r\n\r\n"), "Content-Length").parse::<usize>().unwrap();
        let whole = (body.len() >= len).then(|| text[..head.len() + 4 + len].to_owned())?;
        self.read.drain(..start + whole.len());
        Some(whole)
    }

    fn receive(&mut self, what: &str) -> String {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            let mut room = [0; 65_536];
            let came = match &mut self.wire {
                Wire::Udp(socket) => socket.recv_from(&mut room).map(|(len, from)| {
                    self.proxy = from;
                    len
                }),
                Wire::Tcp(stream) => stream.read(&mut room),
            };
            let len = came.unwrap_or_else(|error| panic!("{} waits for {what}: {error}", self.name));
            assert_ne!(len, 0, "{} waits for {what}: closed", self.name);
            if matches!(self.wire, Wire::Udp(_)) {
                return String::from_utf8(room[..len].to_vec()).unwrap();
            }
            self.read.extend_from_slice(&room[..len]);
        }
    }

    /// Returns the next request with this method, skipping retransmissions of others.
    pub fn request(&mut self, method: &str) -> String {
        let is = |text: &str| text.starts_with(&format!("{method} "));
        if let Some(at) = self.early.iter().position(|text| is(text)) {
            return self.early.remove(at).unwrap();
        }
        loop {
            let text = self.receive(method);
            if is(&text) {
                return text;
            }
        }
    }

    /// Returns the final response to a request with this CSeq.
    pub fn response(&mut self, cseq: &str) -> String {
        loop {
            let text = self.receive(&format!("the answer to {cseq}"));
            match text.strip_prefix("SIP/2.0 ") {
                Some(status) if !status.starts_with('1') && line(&text, "CSeq") == cseq => return text,
                Some(_) => {}
                None => self.early.push_back(text),
            }
        }
    }

    fn via(&mut self) -> String {
        self.branches += 1;
        let protocol = if matches!(self.wire, Wire::Tcp(_)) { "TCP" } else { "UDP" };
        let (at, number) = (self.address(), self.branches);
        format!("SIP/2.0/{protocol} {at};branch=z9hG4bK{}{number}p{};rport", self.name, at.port())
    }

    pub fn register(&mut self, user: &str, call: &str) -> String {
        let (via, contact, name) = (self.via(), self.contact(), self.name);
        self.send(&format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:{user}@example.com>;tag={name}\r\n\
             To: <sip:{user}@example.com>\r\nCall-ID: {call}\r\nCSeq: 1 REGISTER\r\nSupported: path\r\nContact: {contact}\r\n\
             Content-Length: 0\r\n\r\n"
        ));
        self.response("1 REGISTER")
    }

    /// Sends an INVITE.
    pub fn call(&mut self, uri: &str, call_id: &str) -> Dialog {
        let (via, contact, name) = (self.via(), self.contact(), self.name);
        let local = format!("<sip:{name}@example.com>;tag={name}");
        let remote = format!("<{uri}>");
        self.send(&format!(
            "INVITE {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: {local}\r\nTo: {remote}\r\nCall-ID: {call_id}\r\n\
             CSeq: 1 INVITE\r\nContact: {contact}\r\nContent-Length: 0\r\n\r\n"
        ));
        let (call_id, target) = (call_id.to_owned(), uri.to_owned());
        Dialog { call_id, local, remote, target, routes: Vec::new(), cseq: 1 }
    }

    /// Returns the dialog of an accepted call, and sends its ACK.
    pub fn acknowledge(&mut self, dialog: &mut Dialog) {
        let cseq = dialog.cseq;
        let ok = self.response(&format!("{cseq} INVITE"));
        assert!(ok.starts_with("SIP/2.0 200 "), "{}: {ok}", self.name);
        dialog.remote = line(&ok, "To").to_owned();
        dialog.target = contact_of(&ok);
        if dialog.routes.is_empty() {
            dialog.routes = record_routes(&ok);
            dialog.routes.reverse();
        }
        self.within("ACK", cseq, dialog);
    }

    /// Answers a request with 200.
    pub fn accept(&mut self, request: &str) {
        let to = match line(request, "To") {
            to if to.contains(";tag=") => to.to_owned(),
            to => format!("{to};tag={}", self.name),
        };
        let copied = |name: &str| -> String {
            lines(request, name).iter().map(|value| format!("{name}: {value}\r\n")).collect()
        };
        let copied: String = ["Via", "Record-Route", "From", "Call-ID", "CSeq"].map(copied).concat();
        let contact = self.contact();
        self.send(&format!(
            "SIP/2.0 200 OK\r\n{copied}To: {to}\r\nContact: {contact}\r\nContent-Length: 0\r\n\r\n"
        ));
    }

    /// Returns the dialog of a received INVITE.
    pub fn taken(&self, invite: &str) -> Dialog {
        Dialog {
            call_id: line(invite, "Call-ID").to_owned(),
            local: format!("{};tag={}", line(invite, "To"), self.name),
            remote: line(invite, "From").to_owned(),
            target: contact_of(invite),
            routes: record_routes(invite),
            cseq: 100,
        }
    }

    fn within(&mut self, method: &str, cseq: u32, dialog: &Dialog) {
        let (via, contact) = (self.via(), self.contact());
        let Dialog { call_id, local, remote, target, routes, .. } = dialog;
        let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        self.send(&format!(
            "{method} {target} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n{routes}From: {local}\r\nTo: {remote}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContact: {contact}\r\nContent-Length: 0\r\n\r\n"
        ));
    }

    /// Sends a request within a dialog; returns its CSeq.
    pub fn send_within(&mut self, method: &str, dialog: &mut Dialog) -> String {
        dialog.cseq += 1;
        self.within(method, dialog.cseq, dialog);
        format!("{} {method}", dialog.cseq)
    }
}
