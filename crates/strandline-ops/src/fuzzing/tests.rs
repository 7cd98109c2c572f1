#[test]
fn http() {
    strandline_fuzzing::smoke("http", super::http);
}

#[test]
fn document() {
    strandline_fuzzing::smoke("document", super::document);
}
