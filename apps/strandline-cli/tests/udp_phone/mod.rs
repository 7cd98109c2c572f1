//! A UDP phone that registers.

use std::net::UdpSocket;
use std::time::Duration;

use super::sip_server::{Server, again};
use super::waiting::found_at_last;

const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a request is sent again: an overloaded server drops some.
const REPEAT: Duration = Duration::from_secs(2);

pub struct Phone {
    pub socket: UdpSocket,
    pub cseq: u32,
}

impl Phone {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        Self { socket, cseq: 0 }
    }

    pub fn send(&self, server: &Server, text: &str) {
        self.socket.send_to(text.as_bytes(), server.address("udp")).unwrap();
    }

    pub fn receive(&self) -> String {
        self.try_receive().unwrap()
    }

    fn try_receive(&self) -> std::io::Result<String> {
        let mut room = [0; 65_536];
        let len = again(|| self.socket.recv(&mut room))?;
        Ok(String::from_utf8(room[..len].to_vec()).unwrap())
    }

    /// Sends a REGISTER with these additional headers and returns its response.
    pub fn ask(&mut self, server: &Server, user: &str, headers: &str) -> String {
        self.cseq += 1;
        let (cseq, at) = (self.cseq, self.socket.local_addr().unwrap());
        let text = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{user}{cseq};rport\r\n\
             From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
             CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@{at}>\r\n{headers}Content-Length: 0\r\n\r\n"
        );
        // Responses to earlier requests may be retransmitted meanwhile.
        let wanted = format!("\r\nCSeq: {cseq} REGISTER\r\n");
        self.socket.set_read_timeout(Some(REPEAT)).unwrap();
        let answer = found_at_last("a response", || {
            self.send(server, &text);
            loop {
                let came = self.try_receive().map_err(|error| format!("to {text}: {error}"))?;
                if came.contains(&wanted) {
                    return Ok(came);
                }
            }
        });
        self.socket.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        answer
    }
}
