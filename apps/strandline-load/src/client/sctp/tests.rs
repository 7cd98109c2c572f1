use super::*;

fn job(server: &str, number: u64, clients: u64) -> Job {
    Job { server: server.parse().unwrap(), number, clients, ..crate::job::tests::job() }
}

#[test]
fn client_processes_have_no_port_in_common() {
    assert_eq!(own_ports(&job("192.0.2.1:7", 0, 1)), LOCAL_PORTS);
    for clients in [2, 3, 64, 55_536] {
        let ranges: Vec<_> =
            (0..clients).map(|number| own_ports(&job("192.0.2.1:7", number, clients))).collect();
        assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), LOCAL_PORTS);
        assert!(ranges.iter().all(|(first, last)| first <= last), "{ranges:?}");
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{ranges:?}");
    }
}

#[test]
fn loopback_clients_have_distinct_addresses() {
    let address = |server, number, clients| own_address(&job(server, number, clients));
    assert_eq!(address("127.0.0.1:7", 0, 1), None);
    assert_eq!(address("127.0.0.1:7", 0, 3), Some([127, 0, 0, 2].into()));
    assert_eq!(address("127.0.0.1:7", 2, 3), Some([127, 0, 0, 4].into()));
    assert_eq!(address("[::1]:7", 2, 3), None);
    assert_eq!(address("192.0.2.1:7", 2, 3), None);
}
