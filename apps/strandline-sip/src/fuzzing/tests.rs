use strandline_fuzzing::smoke;

#[test]
fn stun() {
    smoke("stun", super::stun);
}

#[test]
fn tokens() {
    smoke("tokens", super::tokens);
}

#[test]
fn journal() {
    smoke("journal", super::journal);
}

#[test]
fn users() {
    smoke("users", super::users);
}

#[test]
fn config() {
    smoke("config", super::config);
}

#[test]
fn dns() {
    smoke("dns", super::dns);
}

#[test]
fn websocket() {
    smoke("websocket", super::websocket);
}

#[test]
fn worker() {
    smoke("worker", super::worker);
}
