use std::sync::Arc;

use strandline_proto::config::EndpointConfig;
use strandline_proto::memory::TakenBytes;

use super::*;

/// Only what a peer or this side has said is a clean end: an association that is not known has none.
#[test]
fn unknown_associations_have_no_clean_end() {
    let engine = Engine::new(EndpointConfig::default(), [1; 32], Time::ZERO).unwrap();
    let taken = Arc::new(TakenBytes::new(Arc::default(), 1 << 30));
    let mut state = State::new(engine, taken, false);
    let id = AssociationId { slot: 3, generation: 1 };
    let closed = || RecvError::Ended(Ended::StackClosed);
    for stream in [None, Some(StreamId(0))] {
        assert_eq!(state.poll_recv(Time::ZERO, id, stream), Poll::Ready(Err(closed())));
    }
    let mut messages = Vec::new();
    let received = state.poll_recv_batch(Time::ZERO, id, &mut messages, 10);
    assert_eq!(received, Poll::Ready(Err(closed())));
}
