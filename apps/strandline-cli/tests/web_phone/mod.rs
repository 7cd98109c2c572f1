//! A phone over WebSocket (RFC 7118).

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use super::sip_server::Server;

pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stream
}

pub fn connect(server: &Server) -> WebSocket<TcpStream> {
    let address = server.address("ws");
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", "sip".parse().unwrap());
    let (phone, answer) = tungstenite::client::client(request, tcp(address)).unwrap();
    assert_eq!(answer.headers()["Sec-WebSocket-Protocol"], "sip");
    phone
}

pub fn next(phone: &mut WebSocket<TcpStream>) -> String {
    match phone.read().unwrap() {
        Message::Text(text) => text.to_string(),
        other => panic!("{other}"),
    }
}

pub fn register(user: &str) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/WS a{user}.invalid;branch=z9hG4bK{user};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\nCall-ID: {user}\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:{user}@a{user}.invalid;transport=ws>\r\n\r\n"
    )
}
