//! IPv6 from programs to the server: listeners, the association between the gateways, and destinations.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use crate::common::{Gateway, PATIENCE, accept, at_last, patient, read_exactly};
use crate::programs;

#[test]
fn ipv6_is_used_from_end_to_end() {
    let (server, udp) = (TcpListener::bind("[::1]:0").unwrap(), UdpSocket::bind("[::1]:0").unwrap());
    let (to, to_udp) = (server.local_addr().unwrap(), udp.local_addr().unwrap());
    let far = Gateway::start(&format!("--listen [::1]:0 --allow {to} --allow-udp {to_udp} --admin [::1]:0"));
    let near = Gateway::start(&format!(
        "--peer far={} --socks [::1]:0 --preload [::1]:0 --forward [::1]:0={to} --forward udp/[::1]:0={to_udp}",
        far.listens()
    ));
    let connect = |listener| patient(TcpStream::connect(near.listener(listener)).unwrap());
    let passes = |client: &mut TcpStream| {
        let mut served = accept(&server);
        client.write_all(b"question").unwrap();
        assert_eq!(read_exactly(&mut served, 8), b"question");
        served.write_all(b"answer").unwrap();
        assert_eq!(read_exactly(client, 6), b"answer");
    };
    passes(&mut connect(2));
    let peer = far.status()["associations"][0]["paths"][0]["address"].clone();
    assert!(peer.as_str().unwrap().contains("::1"), "{peer}");
    // SOCKS5 with an IPv6 address (RFC 1928 section 5).
    let mut client = connect(0);
    client.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(read_exactly(&mut client, 2), [5, 0]);
    let mut request = vec![5, 1, 0, 4];
    let SocketAddr::V6(address) = to else { unreachable!("it is bound to one of IPv6") };
    request.extend_from_slice(&address.ip().octets());
    request.extend_from_slice(&to.port().to_be_bytes());
    client.write_all(&request).unwrap();
    let answer = read_exactly(&mut client, 22);
    assert_eq!(answer[..4], [5, 0, 0, 4], "{answer:?}");
    assert_eq!(answer[4..20], address.ip().octets());
    passes(&mut client);
    // A program with a socket of IPv6.
    let code = "import socket, sys; to = ('::1', int(sys.argv[1])); s = socket.socket(socket.AF_INET6); s.connect(to); \
                s.sendall(b'question'); print(s.recv(100).decode(), s.getpeername()[:2] == to)";
    let options = format!("--gateway {} --loopback", near.listener(1));
    let program = programs::command(&options, &["python3", "-c", code, &to.port().to_string()]);
    let program = std::thread::spawn(move || { program }.output().unwrap());
    let mut served = accept(&server);
    assert_eq!(read_exactly(&mut served, 8), b"question");
    served.write_all(b"answer").unwrap();
    drop(served);
    assert_eq!(String::from_utf8(program.join().unwrap().stdout).unwrap(), "answer True\n");
    // Datagrams.
    let client = UdpSocket::bind("[::1]:0").unwrap();
    for socket in [&client, &udp] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    client.send_to(b"datagram", near.listener(3)).unwrap();
    let mut room = [0; 16];
    let (len, from) = udp.recv_from(&mut room).unwrap();
    assert_eq!(&room[..len], b"datagram");
    // Its lifetime may be over before it is sent.
    client.set_nonblocking(true).unwrap();
    at_last("an answer", || {
        udp.send_to(b"back", from).unwrap();
        client.recv(&mut room).is_ok_and(|len| &room[..len] == b"back")
    });
}
