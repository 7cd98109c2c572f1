//! Phones on UDP and TCP that register, make and receive calls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::sip_server::{Server, again};

const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for a response that may never arrive.
const SHORT_READ_TIMEOUT: Duration = Duration::from_millis(2500);
/// Maximum number of transmissions of a REGISTER over UDP, of which an overloaded server drops some.
const TRANSMISSIONS_MAX: usize = 20;
/// Maximum number of requests until the server refuses none: a busy host lets them wait for so long that it does.
const REQUESTS_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    /// The contact names an address at which the phone can't be reached.
    UdpBehindNat,
    Tcp,
}

impl Carrier {
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::UdpBehindNat => "nat",
            Self::Tcp => "tcp",
        }
    }
}

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream, Vec<u8>),
}

pub struct Phone {
    pub name: String,
    pub server: SocketAddr,
    pub is_patient: bool,
    /// The source of the last message.
    from: SocketAddr,
    carrier: Carrier,
    socket: Socket,
    count: u32,
    cseq: u32,
}

/// Returns a header line of a message.
fn line<'a>(message: &'a str, name: &str) -> &'a str {
    message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

/// Returns all lines of a message with this name, unchanged.
fn lines(message: &str, name: &str) -> String {
    let is = |line: &&str| line.starts_with(&format!("{name}: "));
    message.lines().filter(is).map(|line| format!("{line}\r\n")).collect()
}

/// Returns a 200 response to a request.
fn ok(request: &str, contact: &str) -> String {
    let mut to = line(request, "To").to_owned();
    if !to.contains(";tag=") {
        to.push_str(";tag=callee");
    }
    format!(
        "SIP/2.0 200 OK\r\n{}{}From: {}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {}\r\nContact: {contact}\r\n\
         Content-Length: 0\r\n\r\n",
        lines(request, "Via"),
        lines(request, "Record-Route"),
        line(request, "From"),
        line(request, "Call-ID"),
        line(request, "CSeq"),
    )
}

impl Phone {
    pub fn new(name: &str, carrier: Carrier, server: &Server) -> Self {
        let protocol = if carrier == Carrier::Tcp { "tcp" } else { "udp" };
        Self::at(name, carrier, server.address(protocol))
    }

    pub fn at(name: &str, carrier: Carrier, server: SocketAddr) -> Self {
        let socket = if carrier == Carrier::Tcp {
            let stream = TcpStream::connect(server).unwrap();
            stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
            Socket::Tcp(stream, Vec::new())
        } else {
            let local = if server.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
            let socket = UdpSocket::bind(local).unwrap();
            socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
            Socket::Udp(socket)
        };
        Self {
            name: name.to_owned(),
            server,
            is_patient: true,
            from: server,
            carrier,
            socket,
            count: 0,
            cseq: 0,
        }
    }

    fn local(&self) -> SocketAddr {
        match &self.socket {
            Socket::Udp(socket) => socket.local_addr().unwrap(),
            Socket::Tcp(stream, _) => stream.local_addr().unwrap(),
        }
    }

    pub fn contact(&self) -> String {
        let (name, at) = (&self.name, self.local());
        match self.carrier {
            Carrier::Udp => format!("<sip:{name}@{at}>"),
            Carrier::UdpBehindNat => format!("<sip:{name}@192.0.2.1:5060>"),
            Carrier::Tcp => format!("<sip:{name}@192.0.2.1:5060;transport=tcp;ob>"),
        }
    }

    fn via(&mut self) -> String {
        self.count += 1;
        let protocol = if self.carrier == Carrier::Tcp { "TCP" } else { "UDP" };
        let (at, count) = (self.local(), self.count);
        format!("Via: SIP/2.0/{protocol} {at};branch=z9hG4bK{}-{count};rport\r\n", at.port())
    }

    fn send(&mut self, text: &str) {
        self.send_to(text, self.server);
    }

    /// Over UDP, a response goes to the source of the request, and a request within a dialog to its first
    /// Route.
    fn send_to(&mut self, text: &str, to: SocketAddr) {
        match &mut self.socket {
            Socket::Udp(socket) => {
                socket.send_to(text.as_bytes(), to).unwrap();
            }
            Socket::Tcp(stream, _) => stream.write_all(text.as_bytes()).unwrap(),
        }
    }

    /// Receives the next message, without a body; `None` if none arrives.
    fn receive_any(&mut self) -> Option<String> {
        match &mut self.socket {
            Socket::Udp(socket) => {
                let mut room = [0; 65_536];
                let (len, from) = again(|| socket.recv_from(&mut room)).ok()?;
                self.from = from;
                Some(String::from_utf8(room[..len].to_vec()).unwrap())
            }
            Socket::Tcp(stream, rest) => loop {
                if let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
                    let message = rest.drain(..end + 4).collect();
                    return Some(String::from_utf8(message).unwrap());
                }
                let mut room = [0; 4096];
                let len = again(|| stream.read(&mut room)).ok().filter(|len| *len > 0)?;
                rest.extend_from_slice(&room[..len]);
            },
        }
    }

    /// Receives the next message that isn't a retransmission of an earlier request.
    fn receive(&mut self, wanted: &str) -> String {
        loop {
            let came = self.receive_any().unwrap_or_else(|| panic!("{}: no {wanted}", self.name));
            if came.contains(wanted) && !came.starts_with("SIP/2.0 100") {
                return came;
            }
        }
    }

    fn register_text(&mut self, contact: &str, expires: u32) -> String {
        self.cseq += 1;
        let (via, name, cseq) = (self.via(), self.name.clone(), self.cseq);
        format!(
            "REGISTER sip:example.com SIP/2.0\r\n{via}Max-Forwards: 70\r\nFrom: <sip:{name}@example.com>;tag=1\r\n\
             To: <sip:{name}@example.com>\r\nCall-ID: reg-{name}-{}\r\nCSeq: {cseq} REGISTER\r\n{contact}\
             Expires: {expires}\r\nContent-Length: 0\r\n\r\n",
            self.local().port(),
        )
    }

    /// Sends a REGISTER and returns its response; `None` if none arrives within some seconds. Over UDP, a patient phone
    /// sends it again until it is answered.
    pub fn try_register(&mut self, expires: u32) -> Option<String> {
        let contact = format!("Contact: {}\r\n", self.contact());
        let text = self.register_text(&contact, expires);
        let is_udp = matches!(self.socket, Socket::Udp(_));
        if is_udp {
            self.set_timeout(Some(SHORT_READ_TIMEOUT));
        }
        let transmissions = if is_udp && self.is_patient { TRANSMISSIONS_MAX } else { 1 };
        let answer = (0..transmissions).find_map(|_| {
            self.send(&text);
            self.response_to_register()
        });
        self.set_timeout(Some(READ_TIMEOUT));
        answer
    }

    /// Returns the response to the last REGISTER.
    fn response_to_register(&mut self) -> Option<String> {
        let cseq = format!("CSeq: {} REGISTER", self.cseq);
        loop {
            let came = self.receive_any()?;
            if came.contains(&cseq) {
                return Some(came);
            }
        }
    }

    /// Closes the phone's connection.
    pub fn is_closed(&mut self) -> bool {
        self.receive_any().is_none()
    }

    /// Registers, and repeats that while the server refuses it, as one on a busy host does.
    pub fn register(&mut self) -> String {
        unrefused(|| self.try_register(3600).unwrap())
    }

    pub fn unregister(&mut self) -> String {
        unrefused(|| self.try_register(0).unwrap())
    }

    /// Sends a REGISTER without contacts and returns its response.
    pub fn query(&mut self) -> String {
        unrefused(|| {
            let text = self.register_text("", 3600);
            self.send(&text);
            self.receive(" REGISTER")
        })
    }

    fn invite(&mut self, to: &str) -> String {
        let (via, name, contact) = (self.via(), self.name.clone(), self.contact());
        let text = format!(
            "INVITE sip:{to}@example.com SIP/2.0\r\n{via}Max-Forwards: 70\r\nFrom: <sip:{name}@example.com>;tag=caller\r\n\
             To: <sip:{to}@example.com>\r\nCall-ID: call-{name}-{to}-{}\r\nCSeq: 1 INVITE\r\nContact: {contact}\r\n\
             Content-Length: 0\r\n\r\n",
            self.count
        );
        self.send(&text);
        text
    }

    /// Returns a request within the dialog established by a 200.
    fn in_dialog(&mut self, method: &str, ok: &str, is_caller: bool) -> String {
        let mut routes: Vec<String> =
            lines(ok, "Record-Route").lines().map(|route| route.replace("Record-Route", "Route")).collect();
        let (mut from, mut to) = (line(ok, "From").to_owned(), line(ok, "To").to_owned());
        if is_caller {
            routes.reverse();
        } else {
            std::mem::swap(&mut from, &mut to);
        }
        let routes: String = routes.iter().map(|route| format!("{route}\r\n")).collect();
        let target =
            if is_caller { line(ok, "Contact").trim_matches(['<', '>']) } else { "sip:caller@192.0.2.9" };
        let via = self.via();
        let text = format!(
            "{method} {target} SIP/2.0\r\n{via}Max-Forwards: 70\r\n{routes}From: {from}\r\nTo: {to}\r\nCall-ID: {}\r\n\
             CSeq: {} {method}\r\nContent-Length: 0\r\n\r\n",
            line(ok, "Call-ID"),
            if method == "ACK" { 1 } else { 2 },
        );
        let first = line(&text, "Route").split_once('@').unwrap().1;
        let first = first.split([';', '>']).next().unwrap().parse().unwrap();
        self.send_to(&text, first);
        text
    }
}

/// Repeats a request until its response is no 503.
fn unrefused(ask: impl FnMut() -> String) -> String {
    let mut answers = std::iter::repeat_with(ask).take(REQUESTS_MAX);
    answers.find(|answer| !answer.starts_with("SIP/2.0 503")).expect("a response that is no 503")
}

/// Makes a call that doesn't reach anybody, and returns its final response.
pub fn refused(caller: &mut Phone, to: &str) -> String {
    unrefused(|| try_refused(caller, to))
}

fn try_refused(caller: &mut Phone, to: &str) -> String {
    let invite = caller.invite(to);
    let answer = caller.receive(" INVITE");
    let ack = format!(
        "ACK sip:{to}@example.com SIP/2.0\r\n{}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 ACK\r\n\
         Content-Length: 0\r\n\r\n",
        invite.lines().nth(1).unwrap(),
        line(&answer, "From"),
        line(&answer, "To"),
        line(&answer, "Call-ID"),
    );
    caller.send(&ack);
    answer
}

/// Makes a call and returns its final response. An answered call is acknowledged, and ended by the callee.
pub fn try_call(phones: &mut [Phone], caller: usize, callee: usize) -> String {
    unrefused(|| try_call_once(phones, caller, callee))
}

fn try_call_once(phones: &mut [Phone], caller: usize, callee: usize) -> String {
    let to = phones[callee].name.clone();
    let name = phones[caller].name.clone();
    phones[caller].invite(&to);
    let call = format!("Call-ID: call-{name}-{to}-{}\r\n", phones[caller].count);
    // Either the callee receives the INVITE or the caller is refused: check both in turn.
    let came = loop {
        if let Some(came) = phones[callee].receive_soon()
            && came.contains(&call)
        {
            break came;
        }
        if let Some(answer) = phones[caller].receive_soon()
            && answer.contains(&call)
            && !answer.starts_with("SIP/2.0 100")
        {
            return answer;
        }
    };
    assert!(came.starts_with("INVITE "), "{came}");
    let contact = phones[callee].contact();
    let answer = ok(&came, &contact);
    let to = phones[callee].from;
    phones[callee].send_to(&answer, to);
    let ok_at_caller = phones[caller].receive("SIP/2.0 200");
    phones[caller].in_dialog("ACK", &ok_at_caller, true);
    let ack = phones[callee].receive("ACK ");
    assert!(ack.contains(&call), "{ack}");
    phones[callee].in_dialog("BYE", &answer, false);
    let bye = phones[caller].receive("BYE ");
    let contact = phones[caller].contact();
    let end = ok(&bye, &contact);
    let to = phones[caller].from;
    phones[caller].send_to(&end, to);
    phones[callee].receive(" BYE");
    ok_at_caller
}

/// Makes a call that must be answered.
pub fn call(phones: &mut [Phone], caller: usize, callee: usize) {
    let answer = try_call(phones, caller, callee);
    let (from, to) = (&phones[caller].name, &phones[callee].name);
    assert!(answer.starts_with("SIP/2.0 200"), "{from} calls {to}: {answer}");
}

impl Phone {
    /// Receives a message that is available or arrives within a moment.
    fn receive_soon(&mut self) -> Option<String> {
        let moment = Some(Duration::from_millis(20));
        self.set_timeout(moment);
        let came = self.receive_any();
        self.set_timeout(Some(READ_TIMEOUT));
        came
    }

    fn set_timeout(&self, timeout: Option<Duration>) {
        match &self.socket {
            Socket::Udp(socket) => socket.set_read_timeout(timeout).unwrap(),
            Socket::Tcp(stream, _) => stream.set_read_timeout(timeout).unwrap(),
        }
    }
}
