use strandline_fuzzing::smoke;

#[test]
fn gateway() {
    smoke("gateway", super::gateway);
}
