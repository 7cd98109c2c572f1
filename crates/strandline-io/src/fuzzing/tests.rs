use strandline_fuzzing::smoke;

#[test]
fn netlink_answers() {
    smoke("netlink", super::netlink);
}

#[test]
fn control_messages() {
    smoke("control_messages", super::control_messages);
}

#[test]
fn error_queue_entries() {
    smoke("error_queue", super::error_queue);
}

#[test]
fn raw_packets() {
    smoke("raw_packet", super::raw_packet);
}
