use strandline_fuzzing::smoke;

#[test]
fn http_streams() {
    smoke("http_streams", super::http_streams);
}

#[test]
fn http_request() {
    smoke("http_request", super::http_request);
}
