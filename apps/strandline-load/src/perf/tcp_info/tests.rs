use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn the_kernel_tells_about_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    client.write_all(&[7; 5000]).unwrap();
    let info = tcp_info(server.local_addr().unwrap(), server.peer_addr().unwrap()).unwrap();
    assert_eq!(info.figures.receive_queue_bytes, Some(5000));
    server.read_exact(&mut [0; 5000]).unwrap();
    let info = tcp_info(client.local_addr().unwrap(), client.peer_addr().unwrap()).unwrap();
    assert!(info.congestion.is_some_and(|name| !name.is_empty()));
    let figures = info.figures;
    assert!(figures.rtt_us.unwrap() > 0.0 && figures.cwnd_bytes.unwrap() > 0, "{figures:?}");
    assert_eq!((figures.retransmissions, figures.send_queue_bytes), (Some(0), Some(0)));
    assert!(figures.path_mtu_bytes.unwrap() >= 1280);
}

#[test]
fn short_and_broken_answers_are_no_harm() {
    assert!(parse(&[]).is_none());
    let mut answer = [0; ANSWER_HEADER_BYTES + 12];
    answer[4] = SOCK_DIAG_BY_FAMILY as u8;
    answer[NETLINK_HEADER_BYTES + 1] = STATES_WITH_FIGURES[0];
    for length in 0..answer.len() {
        for attribute in [0, 1, 3, 4, 12, 200] {
            let mut answer = answer;
            answer[ANSWER_HEADER_BYTES] = attribute;
            answer[ANSWER_HEADER_BYTES + 2] = INET_DIAG_INFO as u8;
            let parsed = parse(&answer[..length]);
            assert_eq!(parsed.is_some(), length >= ANSWER_HEADER_BYTES);
        }
    }
}
