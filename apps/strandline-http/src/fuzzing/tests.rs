use strandline_fuzzing::smoke;

#[test]
fn http_streams() {
    smoke("http_streams", super::http_streams);
}

#[test]
fn http_request() {
    smoke("http_request", super::http_request);
}

#[test]
fn http_framing() {
    smoke("http_framing", super::http_framing);
}

#[test]
fn http_page() {
    smoke("http_page", super::http_page);
}

#[test]
fn http_proxy() {
    smoke("http_proxy", super::http_proxy);
}

#[test]
fn http_files() {
    smoke("http_files", super::http_files);
}
