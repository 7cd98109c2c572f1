use super::*;

#[test]
fn ports_that_are_taken_are_passed_over() {
    let local = IpAddr::from([127, 77, 0, 1]);
    let (first, last) = LOCAL_PORTS;
    let _taken = std::net::TcpListener::bind((local, first)).unwrap();
    let port = Cell::new(last);
    let port_of = |socket: &TcpSocket| socket.local_addr().unwrap().port();
    let sockets = [bound(local, &port).unwrap(), bound(local, &port).unwrap()];
    assert_eq!(sockets.each_ref().map(port_of), [last, first + 1]);
    assert_eq!(port.get(), first + 2);
}
