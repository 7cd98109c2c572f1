use strandline::Ppid;

use super::*;
use crate::registry::{ConnectionInfo, Registry};

const TOKEN: u32 = 7;

/// A part of a datagram of the flow. The first has the flow's token.
fn part(unordered: bool, data: &[u8], (begins, ends): (bool, bool)) -> Message {
    let token = TOKEN.to_be_bytes();
    let data = if begins { [&token, data].concat() } else { data.to_vec() };
    let mut part = Message::whole(STREAM, Ppid(0), data.into());
    (part.unordered, part.begins, part.ends) = (unordered, begins, ends);
    part
}

#[tokio::test]
async fn a_datagram_too_long_costs_no_other() {
    let (server, client) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    client.connect(server.local_addr().unwrap()).await.unwrap();
    client.writable().await.unwrap();
    let tracked = Arc::<Registry>::default().begin(ConnectionInfo {
        listener: "udp",
        peer: "far".into(),
        client: None,
        destination: String::new(),
        is_near: false,
    });
    let flows = Arc::<Flows>::default();
    let target = Target { way: Way::Server(Arc::new(client)), entry: Arc::clone(&tracked.entry) };
    let _flow = flows.add(TOKEN, target).unwrap();
    let mut joiner = Joiner::new(INCOMPLETE_MAX);
    let long = vec![0; INCOMPLETE_MAX];
    for part in [
        part(false, b"two ", (true, false)),
        part(true, &long, (true, true)),
        part(true, &long, (true, false)),
        part(false, b"parts", (false, true)),
        part(true, &long, (false, true)),
        part(true, b"whole", (true, true)),
    ] {
        flows.take(&mut joiner, part);
    }
    let mut room = buffer();
    for datagram in [&b"two parts"[..], b"whole"] {
        let len = server.recv(&mut room).await.unwrap();
        assert_eq!(room[..len].escape_ascii().to_string(), datagram.escape_ascii().to_string());
    }
    assert_eq!(joiner.bytes(), 0);
}
