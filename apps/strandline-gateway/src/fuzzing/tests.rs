use strandline_fuzzing::smoke;

#[test]
fn gateway() {
    smoke("gateway", super::gateway);
}

#[test]
fn gateway_config() {
    smoke("gateway_config", super::gateway_config);
}
