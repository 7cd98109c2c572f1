#[test]
fn http() {
    strandline_fuzzing::smoke("http", super::http);
}
