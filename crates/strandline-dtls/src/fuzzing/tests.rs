use strandline_fuzzing::smoke;

#[test]
fn dtls_datagram() {
    smoke("dtls_datagram", super::dtls_datagram);
}

#[test]
fn known_hosts() {
    smoke("known_hosts", super::known_hosts);
}
